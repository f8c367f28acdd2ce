"""What is measured and how it is shown: prompts and reports. The measuring itself runs in the worker."""
