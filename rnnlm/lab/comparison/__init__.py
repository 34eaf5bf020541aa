"""Compare kinds of models on the same tokens, with the same number of parameters, trials and seeds.

parameter_matching chooses the sizes, training_costs measures speed and memory side by side, tuning draws the trials.
The models are trained by ordinary training runs. model_result measures each run, document_bootstrap compares two
models, and model_comparison puts everything together. registered_models compares registered models on a text instead.
"""
