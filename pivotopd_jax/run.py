"""Puts together what a configuration describes: everything of a run that does not change from step to step."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from ml_collections import ConfigDict

from pivotopd_jax import warmstart
from pivotopd_jax.envs.guard import GuardedWorld
from pivotopd_jax.learner.learner import Learner, cast, make_mesh, make_optimizer
from pivotopd_jax.learner.objective import UpdateOptions
from pivotopd_jax.learner.placing import check_mesh, local_copy, own_mesh
from pivotopd_jax.methods import make_method
from pivotopd_jax.methods.method import Method
from pivotopd_jax.models import huggingface
from pivotopd_jax.models.lora import Lora, adapt, merged
from pivotopd_jax.models.peft import save_adapters
from pivotopd_jax.models.qwen3 import shardings
from pivotopd_jax.processes import in_turn, say, together
from pivotopd_jax.prompts.chat import Chat
from pivotopd_jax.prompts.hints import lesson_hint
from pivotopd_jax.prompts.prompter import Prompter, Wording
from pivotopd_jax.records import Observation
from pivotopd_jax.rollout.pivots import Pivot
from pivotopd_jax.rollout.replay import Replay
from pivotopd_jax.sampling.engine import Sampler
from pivotopd_jax.teachers.lessons import PlanLessons
from pivotopd_jax.teachers.protocol import Teacher, TokenScorer
from pivotopd_jax.teachers.self_teacher import SelfTeacher, WritingSelfTeacher
from pivotopd_jax.teachers.skills import SkillBank
from pivotopd_jax.teachers.symbolic import SymbolicTeacher
from pivotopd_jax.teachers.words import REPORT_TOKENS, TOKENS_A_STEP
from pivotopd_jax.trackers import check_trackers, without_secrets
from pivotopd_jax.worlds import make_world

DTYPES = ("float32", "bfloat16")
"""What `config.learner.dtype` may be."""


@dataclass(frozen=True, eq=False)
class TeacherModel:
    """An external teacher: a model that scores what the student said.

    Attributes:
        learner: scores; never updates.
        params: of the teacher.
    """

    learner: Learner
    params: Any


@dataclass(frozen=True, eq=False)
class Run:
    """The fixed parts of a run.

    Attributes:
        config: its configuration.
        world: environment family, whose episodes may crash or hang.
        prompter: renders contexts.
        method: what each stage does.
        teacher: names actions.
        policy: samples; told of new parameters every step.
        learner: scores and updates.
        reference: what `learner` trains, before training.
        model_config: sizes of the student.
        teacher_model: the external teacher, if one is needed.
        skills, pivots, replay: what `offline.prepare` made for the method.
    """

    config: Any
    world: GuardedWorld
    prompter: Prompter
    method: Method
    teacher: Teacher
    policy: Sampler
    learner: Learner
    reference: Any
    model_config: Any
    teacher_model: TeacherModel | None = None
    skills: SkillBank | None = None
    pivots: tuple[Pivot, ...] = ()
    replay: Replay | None = None

    def load(self, params: Any) -> None:
        """Lets the policy sample from `params`, which lie on the learner's mesh; all processes must call this.

        What the learner does not train, the policy has had from the start.
        """
        trained = cast(params, self.learner.how.dtype)
        self.policy.load(nnx.merge_state(self.policy.params, local_copy(trained, self.learner.mesh, self.policy.mesh)))

    def export(self, params: Any, directory: Path) -> None:
        """Writes the student with `params` as a HuggingFace directory; all processes must call this.

        With adapters, these are merged into their matrices, and also written alone, into `directory`/adapters, in the
        format of the library peft.
        """
        whole, lora = self.learner.whole(params), lora_options(self.config)
        plain = merged(self.learner.graphdef, whole, lora) if lora else whole
        huggingface.save(directory, self.model_config, plain, self.prompter.chat.tokenizer)
        if lora:
            save_adapters(directory / "adapters", params, lora, base=self.config.student)

    def skill_text(self, first: Observation, count: int) -> str:
        """The skills of the bank for the task that `first` states, as one text."""
        if self.skills is None:
            raise ValueError(f"method {self.method.name!r} shows skills, and there is no skill bank in this run")
        return "; ".join(skill.text for skill in self.skills.retrieve(self.prompter.wording.task(first), count))

    def advice(self, count: int) -> Callable[[Observation], str] | None:
        """What the student is shown with every turn while it collects: `count` skills; None for none."""
        return (lambda first: lesson_hint(self.skill_text(first, count))) if count else None


def make_run(config: Any, directory: Path, report: warmstart.Report = say, *, method: Method | None = None) -> Run:
    """Assembles the run that `config` describes; all processes must call this.

    Args:
        config: as made by configs/.
        directory: of the run; a mini student is made (or found) in its cache.
        method: in place of the one that `config.method` names.
        report: told in one line what is being done.

    Raises:
        ValueError, FileNotFoundError: a part of the configuration that cannot be used; says which and why.
    """
    with together():
        check_numbers(config)
        check_decay(config)
        lora = lora_options(config)
        check_tasks(config)
        check_trackers(config.log.trackers)
        method = method or make_method(config.method, config.knobs)
        unguarded, wording = make_world(config.world)
        world = GuardedWorld(unguarded, deadline_seconds=config.sampler.env_deadline_seconds)
        mesh = make_mesh(config.learner.fsdp, config.learner.tensor, config.learner.get("expert", 1))
        check_mesh(mesh)
        here = own_mesh(mesh, config.sampler.tensor or config.learner.tensor)
    place = partial(shardings, mesh=mesh, replicate_indivisible=True)
    load = partial(huggingface.load, dtype=jnp.dtype(config.learner.dtype), shardings=place)
    student = in_turn(lambda: student_directory(config, wording, directory, report))
    model_config, graphdef, params, tokenizer = load(student)
    base = nnx.State({})
    if lora:
        with together():
            graphdef, params, base = adapt(graphdef, params, lora, place, seed=config.seed)
    prompter = make_prompter(config.prompt, Chat(tokenizer), wording)
    ppo = config.ppo
    optimizer = make_optimizer(
        ppo.learning_rate, warmup_steps=ppo.warmup_steps, max_grad_norm=ppo.max_grad_norm,
        decay_until=ppo.decay_until, weight_decay=ppo.weight_decay, epsilon=ppo.adam_epsilon,
    )  # fmt: skip
    settings = {key: ppo[key] for key in ("clip_low", "clip_high", "kl_coefficient", "kl_on_recovery")}
    if method.penalty:
        settings |= {"penalty": method.penalty.function, "penalty_weight": method.penalty.weight}
    options = UpdateOptions(**{**settings, **method.update})

    def make_learner(graphdef: Any, base: nnx.State | None = None) -> Learner:
        return Learner(
            graphdef, optimizer, mesh, micro_batch_tokens=config.learner.micro_batch_tokens, base=base, options=options,
            remat=config.learner.remat, dtype=config.learner.dtype,
        )  # fmt: skip

    policy = Sampler(
        model_config, graphdef, local_copy(nnx.merge_state(params, base), mesh, here), slots=config.sampler.slots,
        capacity=config.prompt.prompt_tokens, max_new=config.prompt.response_tokens,
        end_ids=sorted(prompter.chat.end_ids), chunk=config.sampler.chunk, dtype=jnp.dtype(config.learner.dtype),
        mesh=here,
    )  # fmt: skip
    by_student = method.teacher == "student"
    kept = directory.parent / "teacher_replies"
    teacher = make_teacher(config, world, prompter, policy, kept=kept, by_student=by_student)
    if isinstance(teacher, SelfTeacher) and wants_words(method, config.offline):
        raise ValueError(
            f"method {method.name!r} needs lessons in words, which a student that teaches by votes does not write; "
            "choose another config.teacher.kind, or self_mode='words', or set config.offline.skill_bank (methods with "
            "skills) or config.knobs.lesson_weight=0 (PivotOPD and its ablations)"
        )
    scoring, served = None, isinstance(teacher, TokenScorer) and not config.teacher.model
    wants_logits = method.needs_teacher_logits or config.evaluate.teacher_divergence
    if wants_logits or (method.needs_teacher_scores and not served):
        found = in_turn(lambda: teacher_directory(config, wording, directory, report))
        _, teacher_graphdef, teacher_params, other = load(found)
        if other.get_vocab() != tokenizer.get_vocab():
            raise ValueError(
                f"the external teacher {found} has another vocabulary than the student {student}; a method that scores "
                "tokens needs one that splits text into the same tokens"
            )
        scoring = TeacherModel(make_learner(teacher_graphdef), teacher_params)
    learner = make_learner(graphdef, base)
    return Run(config, world, prompter, method, teacher, policy, learner, params, model_config, scoring)


def lora_options(config: Any) -> Lora | None:
    """The adapters that `config.lora` describes, if it describes any.

    Raises:
        ValueError: a value that cannot be used.
    """
    if config.lora.rank or not config.lora.base_dtype:
        return Lora(**config.lora) if config.lora.rank else None
    raise ValueError(
        f"config.lora.base_dtype is {config.lora.base_dtype!r} without adapters, and what is trained cannot be "
        "quantised; set config.lora.rank, or base_dtype=''"
    )


def wants_words(method: Method, offline: Any) -> bool:
    """Whether the teacher will be asked for lessons."""
    reported = method.annotation is not None and method.annotation.lessons == "report"
    return reported or (method.needs_skills and not offline.skill_bank)


COUNTED = (
    "tasks_per_step", "rollouts", "max_turns", "prompt.prompt_tokens", "prompt.response_tokens", "ppo.mini_batch",
    "learner.fsdp", "learner.tensor", "learner.expert", "learner.row_tokens", "learner.micro_batch_tokens",
    "learner.max_skipped", "sampler.slots", "sampler.chunk", "evaluate.every", "checkpoint.every", "checkpoint.keep",
    "log.trajectories_every",
)  # fmt: skip
"""Values of a configuration of which there has to be at least one."""


def check_numbers(config: Any) -> None:
    """Refuses numbers that no run can have, and a dtype that none is computed in.

    Raises:
        ValueError: names one, and says what was expected.
    """
    values = _flat(config.to_dict())
    for key in COUNTED:
        if values.get(key, 1) is None or values.get(key, 1) < 1:
            raise ValueError(f"config.{key} is {values[key]!r}; expected at least 1")
    for key, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"config.{key} is {value}; expected a number")
    if config.learner.dtype not in DTYPES:
        raise ValueError(f"config.learner.dtype is {config.learner.dtype!r}; expected one of {', '.join(DTYPES)}")


def check_decay(config: Any) -> None:
    """Refuses a learning rate that would be 0 before the run ends.

    Raises:
        ValueError: it would; says when, and what to do.
    """
    updates = config.steps * max(1, -(-config.tasks_per_step * config.rollouts // config.ppo.mini_batch))
    if 0 < config.ppo.decay_until < updates:
        raise ValueError(
            f"the learning rate falls to 0 at optimizer step {config.ppo.decay_until}, but the run takes {updates}; "
            f"set config.ppo.decay_until={updates}, or 0 for a constant rate"
        )


def check_tasks(config: Any) -> None:
    """Refuses a run in which a process would have nothing to play.

    Raises:
        ValueError: there are more processes than tasks in a step.
    """
    if config.tasks_per_step < jax.process_count():
        raise ValueError(
            f"config.tasks_per_step is {config.tasks_per_step} for {jax.process_count()} processes, each of which "
            "plays whole tasks; raise it, or start fewer processes"
        )


def make_prompter(options: Any, chat: Chat, wording: Wording) -> Prompter:
    """The prompter that `config.prompt` describes."""
    if options.style not in ("windowed", "transcript"):
        raise ValueError(f"config.prompt.style is {options.style!r}; expected 'windowed' or 'transcript'")
    return Prompter(
        chat, wording, options.style, options.history_turns, options.show_admissible, options.prompt_tokens,
        options.keep_task,
    )  # fmt: skip


def make_teacher(
    config: Any, world: GuardedWorld, prompter: Prompter, policy: Sampler, *, kept: Path, by_student: bool
) -> Teacher:
    """The teacher that `config.teacher` describes, or the student as its own.

    A served one keeps its replies in `kept` if the configuration names no cache.

    Raises:
        ValueError: there is no such kind of teacher.
    """
    options = config.teacher
    if by_student or options.kind == "self":
        return _self_teacher(config, prompter, policy)
    if options.kind == "served":
        # The client of the server takes a second to import, and few runs need it.
        from pivotopd_jax.teachers.served import served_teacher

        return served_teacher(options, prompter, kept, config.seed)
    if options.kind != "symbolic":
        raise ValueError(f"config.teacher.kind is {options.kind!r}; expected 'symbolic', 'self' or 'served'")
    return SymbolicTeacher(
        world.planner, report_knowledge=options.report_knowledge, recovery_knowledge=options.recovery_knowledge,
        error_rate=options.error_rate, seed=config.seed, advise=PlanLessons(world, prompter.wording.gist),
    )  # fmt: skip


def _self_teacher(config: Any, prompter: Prompter, policy: Sampler) -> Teacher:
    options = config.teacher
    if options.self_mode == "votes":
        return SelfTeacher(policy, prompter, options.samples, config.temperature, config.seed)
    if options.self_mode != "words":
        raise ValueError(f"config.teacher.self_mode is {options.self_mode!r}; expected 'words' or 'votes'")
    if config.student == "mini":
        raise ValueError(
            "the mini student speaks nothing but actions and cannot write reports; set config.teacher.self_mode=votes, "
            "or train a student that follows instructions"
        )
    longest = min(REPORT_TOKENS + TOKENS_A_STEP * config.max_turns, options.context_tokens // 4)
    writer = policy.resized(slots=options.slots, capacity=options.context_tokens - longest, max_new=longest)
    return WritingSelfTeacher(
        policy, writer, prompter, context_tokens=options.context_tokens, failure_share=options.failure_share,
        seed=config.seed,
    )  # fmt: skip


def sampled_teachers(run: Run, count: int, kept: Path) -> list[Teacher]:
    """`count` teachers as `config.teacher` describes, alike but for their seeds; `kept` as in `make_teacher`."""
    teachers = []
    for sample in range(count):
        config = ConfigDict(run.config.to_dict())
        config.seed = run.config.seed + sample
        teachers.append(make_teacher(config, run.world, run.prompter, run.policy, kept=kept, by_student=False))
    return teachers


def student_directory(config: Any, wording: Wording, directory: Path, report: warmstart.Report) -> str:
    """Where the student lies; a mini student is made first if its cache is empty."""
    if config.student != "mini":
        return config.student
    cache = directory.parent / "students"
    return str(warmstart.mini_student(config, wording, lambda options: make_world(options)[0], cache, report))


def teacher_directory(config: Any, wording: Wording, directory: Path, report: warmstart.Report) -> str:
    """Where the external teacher lies; a mini one is the mini student, warmed up without careless demonstrations.

    Raises:
        ValueError: the method needs one and the configuration names none.
    """
    if not config.teacher.model:
        raise ValueError(
            f"method {config.method!r}, or config.evaluate.teacher_divergence, scores tokens with an external teacher; "
            "set config.teacher.model to a directory, a hub id or 'mini' (a served teacher can score single tokens, "
            "but gives no whole distributions)"
        )
    if config.teacher.model != "mini":
        return config.teacher.model
    careful = ConfigDict(config.to_dict())
    careful.update({"student": "mini", "mini": {"careless": 0.0}})
    return student_directory(careful, wording, directory, report)


def configuration_record(config: Any) -> dict[str, Any]:
    """The configuration as plain JSON, without secrets: it is kept in files and shown."""
    return without_secrets(json.loads(config.to_json_best_effort()))


def run_record(run: Run) -> dict[str, Any]:
    """What a checkpoint must agree with: the configuration but for `log`, and the name of the method in force."""
    record = {**configuration_record(run.config), "method": run.method.name}
    record.pop("log")
    return record


def teacher_replies(config: Any, directory: Path) -> Path | None:
    """Where the replies of a served teacher are kept; None for others."""
    if config.teacher.kind != "served":
        return None
    return Path(config.teacher.cache) if config.teacher.cache else directory.parent / "teacher_replies"


def configuration_differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What differs between two records, as "ppo.learning_rate: 1e-06 → 1e-05; ..."; empty if nothing does."""
    old, new = _flat(then), _flat(now)
    changed = [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
    return "; ".join(f"{key}: {old.get(key)!r} → {new.get(key)!r}" for key in changed)


def _flat(record: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in record.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat
