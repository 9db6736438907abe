"""Neural architecture search for microcontrollers. In: limits of a device, labelled samples. Out: a trained network that fits.

Modules in the order in which a search uses them:

- `prepare`: reads the samples of a task, such as images or keywords, and chooses the search space for them.
- `arch`, `space`: an architecture (Arch) as a few numbers; a search space (SearchSpace) of architectures, with sampling,
  mutation and crossover.
- `costs`: RAM, Flash, MACs, time and energy of an architecture on a device, from its plan. `network` builds the graph that is
  planned.
- `ram`: peak RAM of an architecture without its graph, for searches that evaluate many networks.
- `stage_one`: stage one of TinyNAS, which chooses the image size and the width (arXiv 2007.10319, section 3.1).
- `search_options`: the options of a search, and the strategy that they imply.
- `budget`, `candidates`, `halving`: strategy "halving": successive halving (arXiv 1502.07943) within a time limit.
- `one_shot`, `evolution`: strategy "supernet": stage two of TinyNAS (section 3.2): train a once-for-all supernet
  (arXiv 1908.09791), evolve networks with its weights, fine-tune the best.
- `int8`, `trained`: quantise the best network, evaluate and deploy it.
- `search_report`: the record of a search, its model card. `verbs`, `commands`: the functions and commands `search`, `train`.
- `searching`: `search`, which runs all of the above. `workers` and `training_run` execute its trainings; `journal` records
  their results, so that an interrupted run resumes.

Not part of a search: `published` holds networks of papers, the counting rule of patches, and `redistribute`, which reduces the
receptive fields of patch-based inference (MCUNetV2). `tasks` reads labelled samples and measures quality on them. `learning`
holds the PyTorch modules and their training.
"""
