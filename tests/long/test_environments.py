"""The suite where rankgrad's caches cannot be written, where the user has no home, and in a forked child.

Each test runs others of the suite in a process of its own. `RANKGRAD_TEST_FILES` chooses which, by default losses,
kernels, metrics and training: `RANKGRAD_TEST_FILES="tests/losses/test_losses.py tests/data/test_letor.py" pytest
-m long tests/long/test_environments.py`.
"""

import os
import shutil
import subprocess
import sys

import pytest
from paths import ROOT

DEFAULT = (
    "tests/losses/test_losses.py tests/kernels/test_kernels_equal_plain.py tests/metrics/test_metrics.py "
    "tests/training/test_training.py"
)
FILES = os.environ.get("RANKGRAD_TEST_FILES", DEFAULT).split()

pytestmark = pytest.mark.long
is_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root, to become another")


def suite(*before, without=(), **settings):
    """Run the chosen tests behind the command `before`; what the process wrote."""
    kept = {name: value for name, value in os.environ.items() if name not in without}
    kept |= {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", **settings}
    command = [*before, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not long", *FILES]
    done = subprocess.run(command, cwd=ROOT, env=kept, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout[-20_000:]
    return done.stdout


def another_user(user):
    """The command prefix of another user, who may read what the owner of this interpreter may, and write nothing."""
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv")
    reads = ["--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"]
    bounds = ["--bounding-set=-all,+dac_read_search"]
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *reads, *bounds]


@is_root
def test_a_full_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk]).returncode != 0:
        pytest.skip("needs to mount a file system")
    try:
        suite(RANKGRAD_CACHE=str(disk))
        assert not [*disk.rglob("*.part")]
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.skipif(os.name != "posix", reason="limits are those of POSIX")
def test_no_file_can_be_written_in_the_cache(tmp_path):
    """The same without root: a process that may write only short files sees what one on a full disk does."""
    program = """
import resource, signal, torch, rankgrad as rg
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
print(rg.losses.softmax(torch.tensor([[2.0, 1.0]]), torch.tensor([[1.0, 0.0]])).item())
"""
    settings = {**os.environ, "RANKGRAD_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(0.3132617)
    assert done.stderr.count("cannot be stored") == 1
    assert not [*tmp_path.rglob("*.part")]


@is_root
def test_a_user_without_home_and_name():
    suite(*another_user(54321), without=("HOME", "XDG_CACHE_HOME", "RANKGRAD_CACHE", "USER", "LOGNAME"))


@is_root
def test_another_user(tmp_path):
    """Whose cache folder belongs to the first one, as does the source."""
    suite(*another_user(65534), RANKGRAD_CACHE=str(tmp_path), HOME="/nonexistent")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child():
    suite(RANKGRAD_TEST_FORK="1")
