"""Compare kinds of models on the same tokens, with the same number of parameters, tuning trials and seeds.

run_plan chooses the sizes and draws the tuning trials. training_costs measures speed and memory of all models under the
same conditions. The models are trained by ordinary training runs. model_result measures each run, document_bootstrap
compares two models, and model_comparison writes all results. registered_models compares registered models on a text
without training.
"""
