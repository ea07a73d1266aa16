"""A tiny model with memberships and mixtures of experts, and every controller that can be on beside it."""

SHARED = ["model.family=fuzzy_transformer", "model.moe_experts=2", "model.dropout=0.1", "rpa.regimes=3", "rpa.warm_steps=12",
          "train.steps=24", "train.ema_decay=0.9"]
CONTROLLERS = ["guardian.enabled=true", "validation.every=4", "validation.max_tokens=256", "swa.enabled=true", "swa.zone=5.4",
               "swa.least_gain=0.001", "schedule.chaos_amplitude=0.25", "game.lengths=8,16,32", "game.every=4", "game.eta=2"]
ALL = [*SHARED, *CONTROLLERS, "game.assignment=per_rank"]
