//! Assembles the calls of a log: calls interrupted by lines of other threads, and calls that a message of strace on the
//! same stream cut in two.

use crate::clock::Clock;
use crate::line::{self, Line};
use crate::lines::{LineEnd, RawLine};
use crate::remarks::{LogPosition, Misreading, Remarks};
use crate::{prefix, scan, symbols};
use quell_trace::{Exit, Nanos};
use std::borrow::Cow;
use std::collections::HashMap;

/// The meaning of a line together with the lines before it.
#[derive(Debug)]
pub(crate) struct AssembledLine<'a> {
    pub(crate) place: LogPosition,
    /// The thread that the line names; `None` where strace follows a single thread.
    pub(crate) thread: Option<i32>,
    /// The time at which strace printed the line.
    pub(crate) at: Nanos,
    /// A call of the same thread that will never return, as this line shows.
    pub(crate) unreturned: Option<Begun>,
    pub(crate) what: LineEvent<'a>,
}

/// The event that a line reports.
#[derive(Debug)]
pub(crate) enum LineEvent<'a> {
    /// A call ended. The time is its begin, where other lines came between.
    Call(Cow<'a, [u8]>, Option<Nanos>),
    /// A thread ended.
    Exited(Exit),
    /// The thread continues under this number, which another thread of its process had.
    Superseded(i32),
    /// A line of strace that reports no call.
    Talk,
    /// A call began.
    Begun,
    /// Part of a line, or an empty line.
    Part,
    /// A line that strace did not print.
    Foreign,
    /// The log ends with a table of counts.
    Summary,
}

/// A call that has begun.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) place: LogPosition,
    pub(crate) at: Nanos,
    pub(crate) text: Vec<u8>,
}

/// A line whose remainder is still missing.
#[derive(Debug)]
struct Torn {
    thread: Option<i32>,
    begun: Begun,
}

/// Keeps unfinished calls and lines.
#[derive(Debug)]
pub(crate) struct Assembler {
    pub(crate) clock: Clock,
    /// By thread; [`ALONE`] for a log of a single thread.
    begun: HashMap<i32, Begun>,
    /// Bytes of text in `begun`.
    held: usize,
    /// The part read so far of a line that a message of strace cut.
    cut: Vec<u8>,
    /// A call whose text is interrupted by a program's output.
    torn: Option<Torn>,
}

/// The thread number in a log that does not number threads.
pub(crate) const ALONE: i32 = 0;

/// The limit on bytes of unfinished calls: a real log has a short line for each living thread.
const MOST_HELD: usize = 64 << 20;

impl Assembler {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, begun: HashMap::new(), held: 0, cut: Vec::new(), torn: None }
    }

    /// Takes the next line. `of` is the thread of this file, with `strace -ff`.
    pub(crate) fn take<'a>(
        &mut self,
        of: Option<i32>,
        log: usize,
        raw: &RawLine<'a>,
        remarks: &mut Remarks,
    ) -> AssembledLine<'a> {
        let place = LogPosition { log, line: raw.number };
        let text = self.joined(raw.text);
        let Some(text) = text else { return self.part(place, of) };
        if let Some(torn) = self.torn.take() {
            if text.starts_with(b")") {
                return self.mended(torn, &text, place);
            }
            misread(&torn.begun, remarks);
        }
        let (prefix, begin) = {
            let (prefix, rest) = prefix::split(&text);
            (prefix, text.len() - rest.len())
        };
        let (thread, at) = (prefix.thread.or(of), self.clock.read(&prefix));
        let mut item = AssembledLine { place, thread, at, unreturned: None, what: LineEvent::Part };
        let text = match text {
            Cow::Borrowed(text) => Cow::Borrowed(&text[begin..]),
            Cow::Owned(mut text) => {
                text.drain(..begin);
                Cow::Owned(text)
            }
        };
        self.fill(&mut item, text, raw.end, remarks);
        item
    }

    fn part<'a>(&self, place: LogPosition, thread: Option<i32>) -> AssembledLine<'a> {
        AssembledLine { place, thread, at: self.clock.now(), unreturned: None, what: LineEvent::Part }
    }

    /// The line joined with the parts before messages; `None` when a message has cut this line too.
    fn joined<'a>(&mut self, text: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        if let Some(part) = line::interrupted(text)
            && self.cut.len() + part.len() <= crate::lines::LONGEST
        {
            self.cut.extend_from_slice(part);
            return None;
        }
        if self.cut.is_empty() {
            return Some(Cow::Borrowed(text));
        }
        let mut whole = std::mem::take(&mut self.cut);
        // A second message on its own line lies between the two parts.
        if line::parse(text) == Line::Talk && !text.starts_with(b" ") {
            self.cut = whole;
            return None;
        }
        whole.extend_from_slice(text);
        Some(Cow::Owned(whole))
    }

    fn mended<'a>(&mut self, torn: Torn, rest: &[u8], place: LogPosition) -> AssembledLine<'a> {
        let Torn { thread, begun } = torn;
        let mut text = begun.text;
        text.push(b'\n');
        text.extend_from_slice(rest);
        let what = LineEvent::Call(Cow::Owned(text), None);
        AssembledLine { place, thread, at: begun.at, unreturned: None, what }
    }

    fn fill<'a>(
        &mut self,
        item: &mut AssembledLine<'a>,
        text: Cow<'a, [u8]>,
        end: LineEnd,
        remarks: &mut Remarks,
    ) {
        let key = item.thread.unwrap_or(ALONE);
        let begun = |text: &[u8]| Begun { place: item.place, at: item.at, text: text.to_vec() };
        item.what = match line::parse(&text) {
            Line::Call(call) if !has_result(call) => {
                let begun = begun(call);
                match end {
                    LineEnd::Newline => self.torn = Some(Torn { thread: item.thread, begun }),
                    LineEnd::FileEnd => remarks.log_cut(item.place),
                }
                LineEvent::Part
            }
            Line::Call(_) => LineEvent::Call(text, None),
            Line::Begun(call) => {
                let mut begun = begun(call);
                if scan::name(call) == Some(b"close") {
                    // Times are rounded down. An open that ends in a later line must count as later than this begin.
                    begun.at = self.clock.tick(begun.at);
                }
                self.hold(key, begun, remarks);
                LineEvent::Begun
            }
            // The thread that takes the number over ends with a superseded line, which names this one.
            Line::Renamed(call) => {
                let begun = begun(call);
                self.hold(key, begun, remarks);
                LineEvent::Begun
            }
            Line::Detached(call) => {
                item.unreturned = Some(begun(call));
                LineEvent::Talk
            }
            Line::Resumed { name, rest } => self.resumed(key, name, rest, item.place, remarks),
            Line::Exited(exit) => {
                item.unreturned = self.release(key);
                LineEvent::Exited(exit)
            }
            Line::Superseded(by) => {
                item.unreturned = self.release(key);
                if let Some(goes_on) = self.release(by) {
                    self.hold(key, goes_on, remarks);
                }
                LineEvent::Superseded(by)
            }
            Line::Talk => LineEvent::Talk,
            Line::Summary => LineEvent::Summary,
            Line::Foreign if text.is_empty() => LineEvent::Part,
            Line::Foreign if end == LineEnd::FileEnd => {
                remarks.log_cut(item.place);
                LineEvent::Part
            }
            Line::Foreign => LineEvent::Foreign,
        };
    }

    fn hold(&mut self, thread: i32, begun: Begun, remarks: &mut Remarks) {
        if let Some(never) = self.release(thread) {
            misread(&never, remarks);
        }
        if self.held + begun.text.len() > MOST_HELD {
            return misread(&begun, remarks);
        }
        self.held += begun.text.len();
        self.begun.insert(thread, begun);
    }

    fn release(&mut self, thread: i32) -> Option<Begun> {
        let begun = self.begun.remove(&thread)?;
        self.held -= begun.text.len();
        Some(begun)
    }

    fn resumed<'a>(
        &mut self,
        thread: i32,
        name: &[u8],
        rest: &[u8],
        place: LogPosition,
        remarks: &mut Remarks,
    ) -> LineEvent<'a> {
        let Some(begun) = self.begun_as(thread, name).and_then(|key| self.release(key)) else {
            if symbols::call(name).is_some() {
                remarks.misread(Misreading::NeverBegan, place);
            }
            return LineEvent::Talk;
        };
        let mut text = begun.text;
        text.extend_from_slice(rest);
        LineEvent::Call(Cow::Owned(text), Some(begun.at))
    }

    /// The thread under which the resumed call is kept. On standard error strace adds or drops thread numbers as other
    /// threads come and go. The call is then that of the only thread in a call of this name.
    fn begun_as(&self, thread: i32, name: &[u8]) -> Option<i32> {
        let is_it = |begun: &Begun| scan::name(&begun.text) == Some(name);
        if let Some(begun) = self.begun.get(&thread) {
            return is_it(begun).then_some(thread);
        }
        if thread != ALONE {
            return self.begun.get(&ALONE).filter(|begun| is_it(begun)).map(|_| ALONE);
        }
        let mut fitting = self.begun.iter().filter(|(_, begun)| is_it(begun)).map(|(key, _)| *key);
        fitting.next().filter(|_| fitting.next().is_none())
    }

    /// The calls left unfinished at the end of the log. Shape: in the order in which they began.
    pub(crate) fn finish(&mut self, remarks: &mut Remarks) -> Vec<(i32, Begun)> {
        if let Some(torn) = self.torn.take() {
            misread(&torn.begun, remarks);
        }
        // The first half of a line remains only when the log itself was cut off.
        let half = std::mem::take(&mut self.cut);
        if !half.is_empty() {
            let place = LogPosition { log: 0, line: 0 };
            let text = prefix::split(&half).1.to_vec();
            misread(&Begun { place, at: self.clock.now(), text }, remarks);
        }
        let mut left: Vec<_> = self.begun.drain().collect();
        left.sort_by_key(|(thread, begun)| (begun.at, begun.place, *thread));
        left
    }
}

/// Tells roughly whether an equals sign stands in the place of a result; the scanner decides.
fn has_result(call: &[u8]) -> bool {
    line::find_last(call, b" = ").is_some()
}

fn misread(begun: &Begun, remarks: &mut Remarks) {
    if scan::name(&begun.text).and_then(symbols::call).is_some() {
        remarks.misread(Misreading::Nonsense, begun.place);
    }
}
