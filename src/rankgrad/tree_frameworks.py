"""List the frameworks that grow boosted trees. A framework is one folder in `rankgrad.trees`, and one line here."""

# Name of the framework, which is also the name of its package -> its subclass of `TreeFramework`, and the file of a
# saved model.
FRAMEWORKS = {
    "lightgbm": ("rankgrad.trees.lightgbm.framework:LightGBM", "model.txt"),
    "xgboost": ("rankgrad.trees.xgboost.framework:XGBoost", "model.json"),
}
FILES = {name: file for name, (_, file) in FRAMEWORKS.items()}
