"""Multi30k (multi30k.py) with 3 + 3 layers, eight heads and a sixth of the steps, for sweeps.

  python -m launch.train --config configs/csan/multi30k_small.py --config.data.dir=FOLDER
  python -m launch.sweep --config configs/csan/multi30k_small.py --config.data.dir=FOLDER \
    --zip model.token_window=3,7,11,21,11,11 --zip model.head_window=1,1,1,1,3,5 --seeds 2 \
    --out sweeps/figure2

The second is the paper's Figure 2: 1D-CSAN's windows, then 2D-CSAN's heads at a window of 11
tokens. Each trial takes some six minutes on two CPU cores.
"""

from configs.csan import multi30k, systems


def get_config(system: str = ""):
    config = multi30k.get_config()
    config.model.num_heads = 8
    config.model.encoder_layers = 3
    config.model.decoder_layers = 3
    config.model.dropout = 0.1
    config.data.max_length = 100
    config.data.batching = "buckets"
    config.data.row_tokens = 128
    config.data.batch_tokens = 1024
    config.data.max_shapes = 4

    # two epochs, with a higher rate that decays to zero
    config.optimizer.learning_rate = 2e-3
    config.optimizer.warmup_steps = 200
    config.train.steps = 1000
    config.optimizer.cooldown = 0.7
    config.train.evaluate_every = 1000
    config.train.checkpoint_every = 500
    config.decode.beam_size = 1
    return systems.choose_sized(config, system)
