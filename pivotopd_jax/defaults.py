"""Every value that a configuration has, with its unit; the files of configs/ say what differs in their world."""

from typing import Any

from ml_collections import ConfigDict


def paper() -> Any:
    """The setting of arXiv 2609.40285 that its environments share; a world has to be added."""
    c: Any = ConfigDict()
    c.seed = 0
    c.method = "pivotopd"  # any name that methods/__init__.py lists
    c.steps = 160
    c.student = "Qwen/Qwen3-1.7B"  # a directory, a hub id, or "mini": made by the run itself

    c.world = ConfigDict()
    c.world.source = ""  # "generated", or a directory; "" means the one that an environment variable names
    c.world.train_split = "train"

    c.tasks_per_step = 16
    c.rollouts = 8  # G, rollouts a task
    c.max_turns = 30
    c.temperature = 1.0  # of training rollouts and recoveries; see sampler.top_p and evaluate.top_p, too
    c.eval_temperature = 0.4

    c.prompt = ConfigDict()
    c.prompt.style = "windowed"  # or "transcript"
    c.prompt.history_turns = 5  # turns shown in the windowed style
    c.prompt.show_admissible = True  # list the admissible actions of the present turn
    c.prompt.prompt_tokens = 2048
    c.prompt.keep_task = False  # transcripts that are too long lose whole turns after the task, not their oldest tokens
    c.prompt.response_tokens = 512

    c.teacher = ConfigDict()
    # "symbolic": plans; "self": the student votes; "served": a language model behind an OpenAI-compatible server
    c.teacher.kind = "served"
    c.teacher.self_mode = "words"  # how the student teaches itself: in "words", or by "votes" on actions alone
    c.teacher.samples = 4  # votes a decision
    c.teacher.slots = 8  # answers that it writes at once
    c.teacher.report_knowledge = "hindsight"  # "oracle", "expert" or "hindsight"
    c.teacher.recovery_knowledge = "expert"  # "oracle" or "expert"
    c.teacher.model = ""  # external teacher that scores tokens: a directory, a hub id, or "mini"
    c.teacher.error_rate = 0.0  # share of named actions replaced by random ones
    c.teacher.base_url = "http://127.0.0.1:8000/v1"  # read where kind is "served", like the rest
    c.teacher.served_model = "teacher"  # name under which the server serves it (launch/teacher.sh: "teacher")
    c.teacher.api_key_env = ""  # name of an environment variable that holds the key; "" sends none
    c.teacher.deadline_seconds = 180.0  # longest a call may take, waiting for its turn and retries included
    c.teacher.concurrency = 64  # calls under way at once
    c.teacher.retries = 3  # further tries of a call that failed
    c.teacher.failure_share = 0.2  # failed calls among the latest 200 of a kind above which the run stops
    c.teacher.context_tokens = 32768  # longest prompt with its reply
    c.teacher.cache = ""  # directory of kept replies; "" is teacher_replies beside the run's directory

    c.knobs = ConfigDict()  # what methods/ read
    c.knobs.normalization = "mean_std"  # A_RL; or "mean"
    c.knobs.max_actions = 5  # m, gold actions a report
    c.knobs.recovery_depth = 2  # K, recovery turns after a pivotal turn
    c.knobs.recovery_limit = 64  # pivotal turns followed up a step
    c.knobs.recovery_mode = "clipped_advantage"  # or "exact_forward_kl", "reverse_kl"
    c.knobs.reward_weight = 1.0  # pivotopd and its variants: of A_RL
    c.knobs.recovery_weight = 1.0
    c.knobs.recovery_clip = 5.0  # δ, nats
    c.knobs.preventive_weight = 0.001  # w_prev
    c.knobs.lesson_weight = 0.001
    c.knobs.full_vocabulary = False  # opd: exact reverse KL in place of the sampled one
    c.knobs.student_share = 1.0  # gkd: λ, share of episodes that the student plays
    c.knobs.beta = 0.5  # gkd: 0 is KL(teacher ‖ student), 1 KL(student ‖ teacher)
    c.knobs.turn_cap = 1.2  # sod: greatest weight of a turn
    c.knobs.step_weight = 1.0  # gigpo: of the step advantage beside A_RL
    c.knobs.discount = 0.95  # γ of the step advantage
    c.knobs.privileged = "skills"  # what self-teachers are shown at every turn; or "gold_action"
    c.knobs.skills = 6  # of the bank, shown at once
    c.knobs.prior = 0.5  # agentopsd: belief in success before the first turn
    c.knobs.replay = True  # dagger, aggrevate: train on labels of earlier steps, too
    c.knobs.pivot_rollouts = 8  # pivotrl: of one turn each, to judge an offline turn
    c.knobs.pivot_least = 0.1  # bounds of their mean reward
    c.knobs.pivot_most = 0.6

    c.offline = ConfigDict()  # what is made before the first step, for methods that need it
    c.offline.tasks = 128  # training tasks played for it
    c.offline.skills = 47  # entries of the skill bank
    c.offline.skill_bank = ""  # a file to read it from; "" makes one from the student's own rollouts

    c.ppo = ConfigDict()
    c.ppo.learning_rate = 1e-6
    c.ppo.warmup_steps = 0
    c.ppo.decay_until = 0  # > 0: after the warm-up the rate falls linearly to 0 at this optimizer step
    c.ppo.weight_decay = 0.0
    c.ppo.adam_epsilon = 1e-8
    c.ppo.max_grad_norm = 1.0
    c.ppo.clip_low = 0.2  # ε
    c.ppo.clip_high = 0.2
    c.ppo.kl_coefficient = 0.01  # β of the k3 penalty to the policy before training
    c.ppo.kl_on_recovery = True
    c.ppo.aggregation = "token_mean"  # or "sequence_mean", "constant" (response_tokens)
    c.ppo.mini_batch = 128  # trajectories an optimizer step

    c.learner = ConfigDict()
    c.learner.fsdp = 4  # mesh axes
    c.learner.tensor = 1
    c.learner.expert = 1  # for students with experts: rows of a batch are spread over this axis, too
    c.learner.row_tokens = 16384  # length of a packed row; must hold the longest context with its response
    c.learner.micro_batch_tokens = 32768  # tokens of a pass, all devices together; at least a row on each
    c.learner.remat = True
    c.learner.max_skipped = 3  # updates in a row that are not finite, or steps without a game, that end the run
    c.learner.dtype = "bfloat16"  # of computation and of frozen weights; what is trained is float32

    c.lora = ConfigDict()  # low-rank adapters in place of training all weights; see docs/lora.md
    c.lora.rank = 0  # 0: all weights are trained
    c.lora.alpha = 32.0  # adapters count alpha / rank
    c.lora.targets = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")  # adapted matrices
    c.lora.base_dtype = ""  # "int8": projections of the frozen base are held in 8 bits; "": as learner.dtype says

    c.sampler = ConfigDict()
    c.sampler.slots = 128  # episodes alive at once
    c.sampler.chunk = 512  # prompt tokens read in one go
    c.sampler.top_p = 1.0  # in training; less cuts off unlikely tokens, which no loss corrects for
    c.sampler.env_threads = 8  # on which environments step while others are decoded; 0: between blocks of decoding
    c.sampler.env_deadline_seconds = 300.0  # longest call to an environment; it is tried twice, see envs/guard.py
    c.sampler.tensor = 0  # devices that one copy of the weights is cut over in sampling; 0: as many as learner.tensor

    c.evaluate = ConfigDict()
    c.evaluate.top_p = 1.0
    c.evaluate.every = 10  # steps
    c.evaluate.tasks = 128  # size of the fixed validation panel
    c.evaluate.final_tasks = 0  # size of the panel of the closing table; 0: all of eval_splits
    c.evaluate.mistakes = 150  # frozen base mistakes of the recovery table
    c.evaluate.continuations = 8  # a mistake
    c.evaluate.teacher_divergence = False  # measure KL(student ‖ teacher.model) on the validation panel, too

    c.checkpoint = ConfigDict()
    c.checkpoint.every = 10  # steps
    c.checkpoint.keep = 2  # newest, besides the best
    c.log = ConfigDict()  # what is written down; nothing here changes what is learnt, and it may differ on resuming
    c.log.trajectories_every = 10  # steps; those of evaluations are always written
    c.log.prompts = True  # with what the student was shown, word by word
    c.log.tokens = True  # with the tokens of the responses, their log-probs and advantages
    c.log.trackers = "tensorboard"  # besides metrics.jsonl: "tensorboard", "wandb", both with a comma between, or ""
    c.log.project = "pivotopd_jax"  # name of the project at Weights & Biases
    return c


def mini(c: Any) -> Any:
    """`c` at the size of a laptop: a student that the run makes itself, on generated tasks."""
    c.student = "mini"
    c.steps = 24
    c.world.source = "generated"
    c.tasks_per_step = 8
    c.prompt.style = "transcript"
    c.prompt.show_admissible = False  # more games in the same minutes are worth more (docs/mini.md)
    c.knobs.max_actions = 2  # the costliest mistakes only
    c.knobs.recovery_weight = 0.1  # in search QA an eighth of it taught no recovery
    c.knobs.lesson_weight = 0.0  # the student as its own teacher could not write any
    c.knobs.skills = 1
    c.offline.tasks = 64
    c.ppo.learning_rate = 1e-4
    c.ppo.warmup_steps = 5
    c.ppo.decay_until = 24  # the end of the run
    c.ppo.kl_coefficient = 0.1  # at 0.02 to 0.05 success fell again after ten steps (docs/mini.md)
    c.ppo.mini_batch = 64
    c.learner.fsdp = 1
    c.learner.micro_batch_tokens = 1536
    c.learner.remat = False
    c.learner.dtype = "float32"
    c.sampler.slots = 64
    c.sampler.chunk = 64
    c.sampler.env_threads = 0  # a mini student's blocks are too short to hide anything behind (docs/sampling.md)
    c.evaluate.tasks = 128
    c.evaluate.final_tasks = 256

    c.teacher.kind = "symbolic"
    c.teacher.self_mode = "votes"  # a student of this size speaks nothing but actions
    c.teacher.model = "mini"  # made like the student, but without careless demonstrations
    c.mini = ConfigDict()  # how the mini student is made; see pivotopd_jax/warmstart.py
    c.mini.games = 8500
    c.mini.epochs = 1
    c.mini.noise = 0.1  # share of demonstrated turns that are commands which do nothing
    c.mini.careless = 0.45  # share of demonstrations with a mistake that is never mended
    c.mini.slip = 0.9  # chance of the mistake at each turn that offers one
    c.mini.turns_astray = 4  # shown after it
    c.mini.hints = 0.2  # share of turns practised with a hint too
    c.mini.lessons = 0.2  # likewise with a lesson, before any mistake
    c.mini.copying = 0  # optimizer steps of repeating random tokens before the demonstrations
    c.mini.context_weight = 1.0  # of predicting what the world wrote
    c.mini.learning_rate = 2e-2  # Muon
    c.mini.adam_learning_rate = 3e-3  # embeddings and norms
    c.mini.batch_tokens = 2048
    c.mini.micro_batch_tokens = 768
    c.mini.seed = 0
    return c
