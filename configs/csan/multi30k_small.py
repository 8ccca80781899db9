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
    config.model.update(
        num_heads=8,
        encoder_layers=3,
        decoder_layers=3,
        dropout=0.1,
    )
    config.data.update(
        max_length=100,
        batching="buckets",
        row_tokens=128,
        batch_tokens=1024,
        max_shapes=4,
    )

    # two epochs, with a higher rate that decays to zero
    config.optimizer.update(learning_rate=2e-3, warmup_steps=200)
    config.train.steps = 1000
    config.optimizer.cooldown = 0.7
    config.train.update(evaluate_every=1000, checkpoint_every=500)
    config.decode.beam_size = 1
    return systems.choose_sized(config, system)
