"""Neural architecture search for microcontrollers. In: limits of a device, labelled samples. Out: a trained network that fits.

Modules in the order in which a search uses them:

- `prepare`: reads the samples of a task and chooses the search space for them.
- `arch`, `space`: an architecture (Arch) as a few numbers; a search space of them, with sampling, mutation and crossover.
- `costs`: RAM, Flash, MACs, time and energy of an architecture, from the plan of its graph (`network`).
- `ram`: peak RAM of an architecture without its graph.
- `stage_one`: stage one of TinyNAS, which chooses the image size and the width (arXiv 2007.10319, section 3.1).
- `settings`, `search_options`: the settings of samples and search, which `--set` changes; their faults, and the strategy.
- `budget`, `candidates`, `halving`: strategy "halving": successive halving (arXiv 1502.07943) within a time limit.
- `one_shot`, `evolution`: strategy "supernet": stage two of TinyNAS (section 3.2): train a once-for-all supernet (arXiv
  1908.09791), evolve networks with its weights, fine-tune the best.
- `int8`, `trained`: quantise the best network, evaluate and deploy it.
- `search_report`: the record of a search, its model card. `verbs`, `commands`: the functions and commands `search`, `train`.
- `searching`: `search`, which runs all of the above. `workers` and `training_run` execute its trainings; `journal` records
  their results, so that an interrupted run resumes.

Beside these: `published` (networks of papers, their counting rule, `redistribute`), `tasks` (samples and quality measured on
them), `learning` (the PyTorch modules and their training).
"""
