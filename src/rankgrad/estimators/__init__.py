"""The estimators, with the interface of scikit-learn: neural rankers, trees, texts, blends and the automatic search."""
