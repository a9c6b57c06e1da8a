// Eager mode without Python: allocates memory, launches the kernels, and connects the value to the graph.
//
// This file does not need CUDA's headers: the driver's launch function is given as an address, and a plan contains the
// arguments of each launch. `native.py` builds this file and makes the plans.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/python_variable.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

// cuLaunchKernel: function, grid, block, bytes of shared memory, stream, arguments, extra (unused).
using Launcher = int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);

struct Pointer {  // an address among the arguments: base[which] + offset
  Py_ssize_t place, which, offset;
};

struct Launch {
  void* function;
  unsigned grid[3], threads, shared;
  std::vector<char> packed;  // the arguments, one after the other
  std::vector<Py_ssize_t> places;
  std::vector<Pointer> pointers;
};

struct Output {
  std::vector<int64_t> shape;
  at::ScalarType dtype;
};

struct Plan {
  Launcher launcher;
  at::Device device;
  int64_t scratch;
  std::vector<Launch> launches;
  std::vector<Output> outputs;
};

std::vector<Py_ssize_t> integers(PyObject* list) {
  std::vector<Py_ssize_t> found(PyList_Size(list));
  for (size_t at = 0; at < found.size(); ++at) found[at] = PyLong_AsSsize_t(PyList_GetItem(list, at));
  return found;
}

// (function, (x, y, z), threads, shared, packed, places, [(place, which, offset)])
Launch read_launch(PyObject* args) {
  Launch launch;
  const char* packed;
  Py_ssize_t size;
  PyObject *places, *pointers;
  unsigned long long function;
  if (!PyArg_ParseTuple(args, "K(III)IIy#O!O!", &function, &launch.grid[0], &launch.grid[1], &launch.grid[2],
                        &launch.threads, &launch.shared, &packed, &size, &PyList_Type, &places, &PyList_Type, &pointers))
    throw python_error();
  launch.function = reinterpret_cast<void*>(function);
  launch.packed.assign(packed, packed + size);
  launch.places = integers(places);
  for (Py_ssize_t at = 0; at < PyList_Size(pointers); ++at) {
    Pointer pointer;
    if (!PyArg_ParseTuple(PyList_GetItem(pointers, at), "nnn", &pointer.place, &pointer.which, &pointer.offset))
      throw python_error();
    launch.pointers.push_back(pointer);
  }
  return launch;
}

// plan(launcher, device, scratch, [launch], [(shape, double)])
PyObject* make_plan(PyObject*, PyObject* args) {
  HANDLE_TH_ERRORS
  unsigned long long launcher;
  const char* device;
  long long scratch;
  PyObject *launches, *outputs;
  if (!PyArg_ParseTuple(args, "KsLO!O!", &launcher, &device, &scratch, &PyList_Type, &launches, &PyList_Type, &outputs))
    return nullptr;
  auto plan = std::make_unique<Plan>(Plan{reinterpret_cast<Launcher>(launcher), at::Device(device), scratch, {}, {}});
  for (Py_ssize_t at = 0; at < PyList_Size(launches); ++at)
    plan->launches.push_back(read_launch(PyList_GetItem(launches, at)));
  for (Py_ssize_t at = 0; at < PyList_Size(outputs); ++at) {
    PyObject* shape;
    int wide;
    if (!PyArg_ParseTuple(PyList_GetItem(outputs, at), "O!p", &PyList_Type, &shape, &wide)) return nullptr;
    const auto sizes = integers(shape);
    plan->outputs.push_back({{sizes.begin(), sizes.end()}, wide ? at::kDouble : at::kFloat});
  }
  return PyCapsule_New(plan.release(), "rankgrad.plan", [](PyObject* capsule) {
    delete static_cast<Plan*>(PyCapsule_GetPointer(capsule, "rankgrad.plan"));
  });
  END_HANDLE_TH_ERRORS
}

// run(plan, stream, [addresses of the inputs]) returns the outputs
PyObject* run(PyObject*, PyObject* const* args, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  TORCH_CHECK_TYPE(count == 3 && PyList_Check(args[2]), "run takes a plan, a stream and a list of addresses");
  auto* plan = static_cast<Plan*>(PyCapsule_GetPointer(args[0], "rankgrad.plan"));
  if (plan == nullptr) return nullptr;
  void* stream = reinterpret_cast<void*>(PyLong_AsUnsignedLongLong(args[1]));
  const Py_ssize_t inputs = PyList_GET_SIZE(args[2]);
  std::vector<char*> bases;
  bases.reserve(inputs + 1 + plan->outputs.size());
  for (Py_ssize_t at = 0; at < inputs; ++at)
    bases.push_back(reinterpret_cast<char*>(PyLong_AsUnsignedLongLong(PyList_GET_ITEM(args[2], at))));
  if (PyErr_Occurred()) return nullptr;

  Tensor scratch;
  if (plan->scratch > 0) scratch = at::empty({plan->scratch}, at::TensorOptions(plan->device).dtype(at::kByte));
  bases.push_back(plan->scratch > 0 ? static_cast<char*>(scratch.mutable_data_ptr()) : nullptr);
  std::vector<Tensor> outputs;
  outputs.reserve(plan->outputs.size());
  for (const Output& output : plan->outputs) {
    outputs.push_back(at::empty(output.shape, at::TensorOptions(plan->device).dtype(output.dtype)));
    bases.push_back(static_cast<char*>(outputs.back().mutable_data_ptr()));
  }

  std::vector<char> packed;
  std::vector<void*> arguments;
  for (const Launch& launch : plan->launches) {
    packed = launch.packed;  // a plan may run in several threads
    for (const Pointer& pointer : launch.pointers) {
      char* address = bases[pointer.which] + pointer.offset;
      std::memcpy(packed.data() + pointer.place, &address, sizeof address);
    }
    arguments.clear();
    for (Py_ssize_t place : launch.places) arguments.push_back(packed.data() + place);
    const int failed = plan->launcher(launch.function, launch.grid[0], launch.grid[1], launch.grid[2], launch.threads, 1,
                                      1, launch.shared, stream, arguments.data(), nullptr);
    // The message is built without a string stream. If libstdc++ is linked statically, the process has two copies of
    // it, and their string streams are not compatible.
    TORCH_CHECK(failed == 0, std::string("a kernel could not be launched: CUDA error ") + std::to_string(failed));
  }

  PyObject* found = PyList_New(outputs.size());
  for (size_t at = 0; at < outputs.size(); ++at) PyList_SET_ITEM(found, at, THPVariable_Wrap(std::move(outputs[at])));
  return found;
  END_HANDLE_TH_ERRORS
}

// Returns a gradient unchanged, and raises an error if the gradient is differentiated again.
struct OnceOnly : torch::autograd::Function<OnceOnly> {
  static Tensor forward(AutogradContext*, const Tensor& gradient, const Tensor&) { return gradient.view_as(gradient); }

  static variable_list backward(AutogradContext*, const variable_list&) {
    TORCH_CHECK(false, "a fused loss has no second derivative; compute the loss inside `with rg.backend('plain')`");
  }
};

// Connects an already computed value to the graph. `slopes` contains the derivatives by scores, then by params.
struct Connected : torch::autograd::Function<Connected> {
  static Tensor forward(AutogradContext* ctx, const Tensor& value, const Tensor& slopes, at::TensorList sources) {
    variable_list saved(sources.begin(), sources.end());
    saved.push_back(slopes);
    ctx->save_for_backward(std::move(saved));
    return value;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& upstream) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor product = at::mul(saved.back(), upstream[0]);
    const auto params = static_cast<int64_t>(saved.size()) - 2;
    variable_list found(2);  // there are no gradients by value and slopes
    if (params == 0) {
      found.push_back(product);
    } else {
      const int64_t documents = product.numel() - params;
      found.push_back(product.narrow(0, 0, documents).view(saved[0].sizes()));
      for (int64_t at = 0; at < params; ++at) found.push_back(product.select(0, documents + at));
    }
    if (at::GradMode::is_enabled())
      for (int64_t at = 0; at <= params; ++at) found[2 + at] = OnceOnly::apply(found[2 + at], saved[at]);
    return found;
  }
};

// connect(value, slopes, scores, *params) returns the value, connected to the graph
PyObject* connect(PyObject*, PyObject* const* args, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  TORCH_CHECK_TYPE(count >= 3, "connect takes a value, slopes and scores");
  for (Py_ssize_t at = 0; at < count; ++at) TORCH_CHECK_TYPE(THPVariable_Check(args[at]), "connect takes tensors");
  std::vector<Tensor> sources;
  for (Py_ssize_t at = 2; at < count; ++at) sources.push_back(THPVariable_Unpack(args[at]));
  return THPVariable_Wrap(
      Connected::apply(THPVariable_Unpack(args[0]), THPVariable_Unpack(args[1]), at::TensorList(sources)));
  END_HANDLE_TH_ERRORS
}

// slopes(value, scores) returns the derivatives by scores that `connect` stored with the value, or None if the leaf
// `scores` is not a direct input of `connect`
PyObject* slopes(PyObject*, PyObject* const* args, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  TORCH_CHECK_TYPE(count == 2 && THPVariable_Check(args[0]) && THPVariable_Check(args[1]), "slopes takes two tensors");
  const Tensor& scores = THPVariable_Unpack(args[1]);
  const auto& function = THPVariable_Unpack(args[0]).grad_fn();
  auto* node = dynamic_cast<torch::autograd::CppNode<Connected>*>(function.get());
  if (node == nullptr || node->next_edge(2) != torch::autograd::impl::gradient_edge(scores)) Py_RETURN_NONE;
  const Tensor all = node->ctx_.get_saved_variables().back();
  return THPVariable_Wrap(all.view({-1}).narrow(0, 0, scores.numel()).view(scores.sizes()));
  END_HANDLE_TH_ERRORS
}

PyCFunction fast(PyObject* (*function)(PyObject*, PyObject* const*, Py_ssize_t)) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef methods[] = {{"plan", make_plan, METH_VARARGS, nullptr},
                         {"run", fast(run), METH_FASTCALL, nullptr},
                         {"connect", fast(connect), METH_FASTCALL, nullptr},
                         {"slopes", fast(slopes), METH_FASTCALL, nullptr},
                         {nullptr, nullptr, 0, nullptr}};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "native", nullptr, -1, methods};

}  // namespace

PyMODINIT_FUNC PyInit_native() { return PyModule_Create(&module); }
