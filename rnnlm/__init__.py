"""The library: text in, a trained, measured and registered recurrent language model out. Knows nothing of Prefect."""
