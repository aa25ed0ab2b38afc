//! The seccomp filter: stops the recorded calls and lets all others pass at full speed.
//!
//! The filter checks architecture and number first, and arguments only where it must. For numbers that need no
//! arguments, the kernel (from 5.11) caches `allow` in a bitmap and does not run the filter at all. Source:
//! `seccomp(2)`; `kernel/seccomp.c`, `seccomp_cache_prepare_bitmap`.

use crate::calls::{CLONE3, native};
use crate::sys::ptrace::Entered;
use quell_trace::Call;

/// One instruction of a classic BPF program in the kernel's layout. Source: `linux/filter.h`, `struct sock_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Instruction {
    code: u16,
    when_true: u8,
    when_false: u8,
    operand: u32,
}

/// The word of a stop for a call that is recorded. The tracer reads the word with the stop.
pub(crate) const NATIVE: u16 = 0;
/// The call belongs to another architecture's interface: counted, not recorded.
pub(crate) const FOREIGN: u16 = 1;

/// The call reads or sets a thread's affinity: the recorder first restores the affinities that it changed.
pub(crate) const AFFINITY: u16 = 2;

/// The call ends the process and all its threads.
pub(crate) const END: u16 = 3;

/// The filter for this machine.
pub(crate) fn native() -> Vec<Instruction> {
    let mut program = vec![load(ARCHITECTURE)];
    for &(architecture, numbers) in native::FOREIGN {
        let decisions = numbers.iter().map(|&number| (number, Decision::Stop(FOREIGN))).collect();
        let mut branch = vec![load(NUMBER)];
        search(&segments(decisions), &mut branch);
        program.extend(skip_unless_equal(architecture, branch.len()));
        program.extend(branch);
    }
    program.push(Instruction { when_true: 1, ..jump(JUMP_IF_EQUAL, native::ARCHITECTURE) });
    program.push(answer(ALLOW));
    program.push(load(NUMBER));
    search(&segments(decisions()), &mut program);
    program
}

/// Decides as the filter does, for an engine that stops every call.
#[derive(Debug)]
pub(crate) struct Rules {
    /// Shape: sorted by number.
    decisions: Vec<(u32, Decision)>,
}

impl Rules {
    pub(crate) fn native() -> Self {
        Self { decisions: decisions() }
    }

    /// The word of a call's stop; `None` for a call that the filter would allow.
    pub(crate) fn word(&self, entered: &Entered) -> Option<u16> {
        let number = u32::try_from(entered.number).ok()?;
        let foreign = native::FOREIGN.iter().find(|(other, _)| *other == entered.architecture);
        let is_native = entered.architecture == native::ARCHITECTURE;
        if !is_native && foreign.is_none() {
            return None;
        }
        if native::FOREIGN_NUMBERS_FROM.is_some_and(|from| number >= from) {
            return Some(FOREIGN);
        }
        if let Some((_, numbers)) = foreign {
            return numbers.binary_search(&number).ok().map(|_| FOREIGN);
        }
        let index = self.decisions.binary_search_by_key(&number, |&(number, _)| number).ok()?;
        let has = |argument: u32, bits: u32| entered.arguments[argument as usize] as u32 & bits != 0;
        match self.decisions[index].1 {
            Decision::Allow => None,
            Decision::Stop(word) => Some(word),
            Decision::StopWithout { argument, bits } => (!has(argument, bits)).then_some(NATIVE),
            Decision::StopWith { argument, bits } => has(argument, bits).then_some(NATIVE),
        }
    }
}

/// The action for a call with a certain number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Allow,
    /// Stop for the recorder with this word.
    Stop(u16),
    /// Stop unless the argument has one of these bits.
    StopWithout {
        argument: u32,
        bits: u32,
    },
    /// Stop if the argument has one of these bits.
    StopWith {
        argument: u32,
        bits: u32,
    },
}

/// Anonymous memory, which is no operation on a file system. Source: `mmap(2)`.
const MAP_ANONYMOUS: u32 = 0x20;
/// Lets the child escape the recorder. Source: `clone(2)`.
pub(crate) const CLONE_UNTRACED: u32 = 0x0080_0000;

fn decisions() -> Vec<(u32, Decision)> {
    let decide = |call: Call| match call {
        Call::Mmap => Decision::StopWithout { argument: 3, bits: MAP_ANONYMOUS },
        _ => Decision::Stop(NATIVE),
    };
    let mut decisions: Vec<_> =
        native::NUMBERS.iter().map(|&(number, call)| (number, decide(call))).collect();
    decisions.push((native::CLONE, Decision::StopWith { argument: 0, bits: CLONE_UNTRACED }));
    // The flags are in memory, which a filter cannot read.
    decisions.push((CLONE3, Decision::Stop(NATIVE)));
    let affinity = [libc::SYS_sched_getaffinity, libc::SYS_sched_setaffinity];
    decisions.extend(affinity.map(|number| (number as u32, Decision::Stop(AFFINITY))));
    decisions.push((libc::SYS_exit_group as u32, Decision::Stop(END)));
    decisions.sort_by_key(|&(number, _)| number);
    decisions
}

/// Decisions by the first number to which they apply; each holds up to the next. Shape: sorted, the first at 0,
/// neighbours differ.
type Segments = Vec<(u32, Decision)>;

fn segments(decisions: Vec<(u32, Decision)>) -> Segments {
    let mut segments: Segments = vec![(0, Decision::Allow)];
    let mut put = |from: u32, decision: Decision| {
        if segments.last().is_some_and(|&(last, _)| last == from) {
            segments.pop();
        }
        if segments.last().is_none_or(|&(_, last)| last != decision) {
            segments.push((from, decision));
        }
    };
    for (number, decision) in decisions {
        put(number, decision);
        put(number + 1, Decision::Allow);
    }
    if let Some(from) = native::FOREIGN_NUMBERS_FROM {
        put(from, Decision::Stop(FOREIGN));
    }
    segments
}

/// A binary search for the number in the accumulator.
fn search(segments: &[(u32, Decision)], program: &mut Vec<Instruction>) {
    if let [(_, decision)] = segments {
        return decide(*decision, program);
    }
    let (low, high) = segments.split_at(segments.len() / 2);
    let mut below = Vec::new();
    search(low, &mut below);
    // A conditional jump reaches 255 instructions, an unconditional one any number.
    program.push(Instruction { when_false: 1, ..jump(JUMP_IF_AT_LEAST, high[0].0) });
    program.push(jump(JUMP, below.len() as u32));
    program.extend(below);
    search(high, program);
}

fn decide(decision: Decision, program: &mut Vec<Instruction>) {
    match decision {
        Decision::Allow => program.push(answer(ALLOW)),
        Decision::Stop(word) => program.push(answer(STOP | u32::from(word))),
        Decision::StopWithout { argument, bits } => {
            program.extend(test_bits(argument, bits));
            program.extend([answer(ALLOW), answer(STOP | u32::from(NATIVE))]);
        }
        Decision::StopWith { argument, bits } => {
            program.extend(test_bits(argument, bits));
            program.extend([answer(STOP | u32::from(NATIVE)), answer(ALLOW)]);
        }
    }
}

/// Two instructions: continues behind them when one of the bits is set, and skips one more when none is.
fn test_bits(argument: u32, bits: u32) -> [Instruction; 2] {
    let low_word = ARGUMENTS + 8 * argument;
    [load(low_word), Instruction { when_false: 1, ..jump(JUMP_IF_BITS, bits) }]
}

fn skip_unless_equal(value: u32, length: usize) -> [Instruction; 2] {
    [Instruction { when_true: 1, ..jump(JUMP_IF_EQUAL, value) }, jump(JUMP, length as u32)]
}

const fn load(offset: u32) -> Instruction {
    Instruction { code: LOAD, when_true: 0, when_false: 0, operand: offset }
}

const fn jump(code: u16, operand: u32) -> Instruction {
    Instruction { code, when_true: 0, when_false: 0, operand }
}

const fn answer(value: u32) -> Instruction {
    Instruction { code: RETURN, when_true: 0, when_false: 0, operand: value }
}

/// `BPF_LD | BPF_W | BPF_ABS`. Source of these six: `linux/bpf_common.h`.
const LOAD: u16 = 0x20;
/// `BPF_JMP | BPF_JEQ | BPF_K`.
const JUMP_IF_EQUAL: u16 = 0x15;
/// `BPF_JMP | BPF_JGE | BPF_K`.
const JUMP_IF_AT_LEAST: u16 = 0x35;
/// `BPF_JMP | BPF_JSET | BPF_K`.
const JUMP_IF_BITS: u16 = 0x45;
/// `BPF_JMP | BPF_JA`.
const JUMP: u16 = 0x05;
/// `BPF_RET | BPF_K`.
const RETURN: u16 = 0x06;

/// Offsets in `struct seccomp_data`; low words first, as both supported architectures are little endian.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

/// `SECCOMP_RET_ALLOW`.
const ALLOW: u32 = 0x7fff_0000;
/// `SECCOMP_RET_TRACE`; the low half is handed to the tracer.
const STOP: u32 = 0x7ff0_0000;

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the program as the kernel would.
    fn run(program: &[Instruction], architecture: u32, number: u32, arguments: [u32; 6]) -> u32 {
        let (mut at, mut accumulator) = (0, 0);
        loop {
            let Instruction { code, when_true, when_false, operand } = program[at];
            let branch = |holds: bool| usize::from(if holds { when_true } else { when_false });
            at += 1;
            match code {
                LOAD => {
                    accumulator = match operand {
                        NUMBER => number,
                        ARCHITECTURE => architecture,
                        offset => arguments[((offset - ARGUMENTS) / 8) as usize],
                    }
                }
                JUMP_IF_EQUAL => at += branch(accumulator == operand),
                JUMP_IF_AT_LEAST => at += branch(accumulator >= operand),
                JUMP_IF_BITS => at += branch(accumulator & operand != 0),
                JUMP => at += operand as usize,
                RETURN => return operand,
                other => panic!("unknown instruction {other:#x}"),
            }
        }
    }

    #[test]
    fn exactly_the_calls_of_the_set_and_those_on_affinity_stop() {
        let program = native();
        let affinity = [libc::SYS_sched_getaffinity, libc::SYS_sched_setaffinity].map(|number| number as u32);
        for number in 0..600 {
            let stops = native::NUMBERS.iter().any(|&(recorded, _)| recorded == number) || number == CLONE3;
            let expected = match number {
                number if affinity.contains(&number) => STOP | u32::from(AFFINITY),
                number if i64::from(number) == libc::SYS_exit_group => STOP | u32::from(END),
                _ if stops => STOP,
                _ => ALLOW,
            };
            assert_eq!(run(&program, native::ARCHITECTURE, number, [0; 6]), expected, "{number}");
        }
        assert!(program.len() < 4096, "BPF_MAXINSNS");
    }

    #[test]
    fn rules_without_a_filter_decide_as_the_filter_does() {
        let (program, rules) = (native(), Rules::native());
        let architectures = [native::ARCHITECTURE, native::FOREIGN[0].0, 0x1234_5678];
        let flags = [0, MAP_ANONYMOUS, CLONE_UNTRACED];
        let numbers = (0..600).chain(native::FOREIGN_NUMBERS_FROM);
        for number in numbers {
            for (architecture, flags) in architectures.iter().flat_map(|&one| flags.map(|flags| (one, flags)))
            {
                let entered = Entered {
                    thread: quell_trace::Pid(1),
                    number: number.into(),
                    arguments: [flags.into(); 6],
                    word: 0,
                    architecture,
                    stack: 0,
                };
                let expected = rules.word(&entered).map_or(ALLOW, |word| STOP | u32::from(word));
                assert_eq!(
                    run(&program, architecture, number, [flags; 6]),
                    expected,
                    "{number} {architecture:#x}"
                );
            }
        }
    }

    #[test]
    fn anonymous_memory_passes_and_files_stop() {
        let program = native();
        let (map, _) = native::NUMBERS.iter().find(|(_, call)| *call == Call::Mmap).unwrap();
        let with = |flags| run(&program, native::ARCHITECTURE, *map, [0, 0, 0, flags, 0, 0]);
        assert_eq!((with(MAP_ANONYMOUS | 2), with(2)), (ALLOW, STOP));
    }

    #[test]
    fn a_child_that_would_escape_stops() {
        let program = native();
        let with = |flags| run(&program, native::ARCHITECTURE, native::CLONE, [flags, 0, 0, 0, 0, 0]);
        assert_eq!((with(CLONE_UNTRACED | 0x11), with(0x11)), (STOP, ALLOW));
    }

    #[test]
    fn other_interfaces_are_told_apart() {
        let program = native();
        let (foreign, numbers) = native::FOREIGN[0];
        for number in 0..460 {
            let stops = numbers.contains(&number);
            let expected = if stops { STOP | u32::from(FOREIGN) } else { ALLOW };
            assert_eq!(run(&program, foreign, number, [0; 6]), expected, "{number}");
        }
        if let Some(from) = native::FOREIGN_NUMBERS_FROM {
            assert_eq!(run(&program, native::ARCHITECTURE, from, [0; 6]), STOP | u32::from(FOREIGN));
        }
        assert_eq!(run(&program, 0x1234_5678, 0, [0; 6]), ALLOW);
    }
}
