"""XGBoost: everything in which it differs from other frameworks. Only `framework.py` is used from outside."""
