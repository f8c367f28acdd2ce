"""Files of models, read and checked without mlx: configs, headers of weight files. Nothing here reads weights."""
