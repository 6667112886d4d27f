//! What was sent and what was answered, held against what is stored in the end.

use std::collections::HashMap;

/// What a caller learned of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Done, with this total right after it.
    Total(i64),
    /// A typed error after which nothing of it is stored.
    NotStored,
    /// A typed error that leaves it open.
    Unknown,
    /// The framework's closed error: never handled.
    Closed,
}

/// What a command stores, if it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stores {
    Nothing,
    /// Its number, which is its own, so many times and all or nothing.
    Number {
        number: i64,
        times: usize,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct Message {
    stores: Stores,
    /// Not put aside: stored before what was sent later.
    in_turn: bool,
    /// How many answers had come when it was sent.
    after_answers: usize,
    /// `None` where nobody waits.
    answer: Option<Answer>,
    /// So many answers came before its own.
    answered: usize,
    /// What was durable when the answer was there.
    durable: usize,
}

/// All messages to one id, in the order they were sent.
#[derive(Debug, Default)]
pub(crate) struct History {
    messages: Vec<Message>,
    answers: usize,
    /// Written by another than the actor.
    foreign: Vec<i64>,
}

/// Where a command's events are.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// The number of the last one.
    last: usize,
    /// What all up to there add up to.
    total: i64,
    times: usize,
}

impl History {
    /// The index by which its answer is told.
    pub(crate) fn sent(&mut self, stores: Stores, in_turn: bool) -> usize {
        self.messages.push(Message {
            stores,
            in_turn,
            after_answers: self.answers,
            answer: None,
            answered: 0,
            durable: 0,
        });
        self.messages.len() - 1
    }

    pub(crate) fn answered(&mut self, index: usize, answer: Answer, durable: usize) {
        let message = self.messages.get_mut(index).expect("it was sent");
        assert!(message.answer.is_none(), "answered twice: {message:?}");
        message.answer = Some(answer);
        message.answered = self.answers;
        message.durable = durable;
        self.answers += 1;
    }

    pub(crate) fn is_aside(&self, index: usize) -> bool {
        self.messages.get(index).is_some_and(|message| !message.in_turn)
    }

    pub(crate) fn written_by_another(&mut self, number: i64) {
        self.foreign.push(number);
    }

    /// How many commands were done.
    pub(crate) fn done(&self) -> usize {
        let done = |message: &&Message| matches!(message.answer, Some(Answer::Total(_)));
        self.messages.iter().filter(done).count()
    }

    /// Whether the answers are true of the numbers that are stored, in their order.
    ///
    /// # Errors
    /// The first one that is not.
    pub(crate) fn check(&self, stored: &[i64]) -> Result<(), String> {
        let places = places(stored)?;
        let at_total = |total| {
            let found = places.values().find(|place| place.total == total);
            found.map(|place| place.last).or((total == 0).then_some(0))
        };
        for number in &self.foreign {
            if places.get(number).is_none_or(|place| place.times != 1) {
                return Err(format!("another writer's {number} is not there once"));
            }
        }
        let mut explained = self.foreign.len();
        let mut last_in_turn = 0;
        let mut seen = Vec::new();
        for message in &self.messages {
            let place = match message.stores {
                Stores::Nothing => None,
                Stores::Number { number, times } => {
                    let place = places.get(&number);
                    if let Some(place) = place {
                        explained += 1;
                        if place.times != times {
                            return Err(format!(
                                "{} of {times} events are stored: {message:?}",
                                place.times
                            ));
                        }
                        if message.in_turn {
                            if place.last < last_in_turn {
                                return Err(format!("stored before what was sent earlier: {message:?}"));
                            }
                            last_in_turn = place.last;
                        }
                    }
                    place
                }
            };
            let seen_at = match (message.answer, message.stores, place) {
                (Some(Answer::Total(_)), Stores::Number { .. }, None) => {
                    return Err(format!("acknowledged but not stored: {message:?}"));
                }
                (Some(Answer::Total(total)), Stores::Number { .. }, Some(place)) => {
                    if place.total != total {
                        return Err(format!("the total was {}: {message:?}", place.total));
                    }
                    Some(place.last)
                }
                (Some(Answer::Total(total)), Stores::Nothing, _) => match at_total(total) {
                    None => return Err(format!("there never was this total: {message:?}")),
                    at => at,
                },
                (Some(Answer::NotStored | Answer::Closed), _, Some(place)) => {
                    return Err(format!("stored at {}, but: {message:?}", place.last));
                }
                _ => None,
            };
            if let Some(at) = seen_at {
                if at > message.durable {
                    return Err(format!("answered at {at}, which was not durable: {message:?}"));
                }
                seen.push((message, at));
            }
        }
        if explained != places.len() {
            return Err(format!("no command explains all of {stored:?}"));
        }
        // Whoever had an answer sees at least as much in the next one.
        seen.sort_by_key(|(message, _)| message.answered);
        let mut newest = vec![0];
        for (_, at) in &seen {
            newest.push(*at.max(newest.last().unwrap_or(&0)));
        }
        for (message, at) in &seen {
            let earlier = seen.partition_point(|(other, _)| other.answered < message.after_answers);
            if newest.get(earlier).is_some_and(|newest| at < newest) {
                return Err(format!(
                    "older than an answer that came before it was sent: {message:?}"
                ));
            }
        }
        Ok(())
    }
}

/// By number.
fn places(stored: &[i64]) -> Result<HashMap<i64, Place>, String> {
    let mut places = HashMap::new();
    let (mut last, mut total) = (0, 0);
    for write in stored.chunk_by(|one, next| one == next) {
        last += write.len();
        total += write.iter().sum::<i64>();
        let place = Place {
            last,
            total,
            times: write.len(),
        };
        for number in write.iter().take(1) {
            if places.insert(*number, place).is_some() {
                return Err(format!("{number} is stored twice: {stored:?}"));
            }
        }
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(history: &mut History, number: i64, answer: Answer, durable: usize) {
        let index = history.sent(Stores::Number { number, times: 1 }, true);
        history.answered(index, answer, durable);
    }

    fn assert_wrong(history: &History, stored: &[i64], wrong: &str) {
        let checked = history.check(stored);
        assert!(
            checked.as_ref().is_err_and(|error| error.contains(wrong)),
            "{checked:?}"
        );
    }

    #[test]
    fn a_true_history_passes() {
        let mut history = History::default();
        write(&mut history, 1, Answer::Total(1), 1);
        write(&mut history, 2, Answer::NotStored, 1);
        write(&mut history, 3, Answer::Unknown, 1);
        write(&mut history, 4, Answer::Closed, 1);
        write(&mut history, 5, Answer::Unknown, 1);
        history.written_by_another(6);
        let read = history.sent(Stores::Nothing, true);
        history.answered(read, Answer::Total(1 + 3 + 6), 3);
        let three = history.sent(Stores::Number { number: 7, times: 3 }, true);
        history.answered(three, Answer::Total(10 + 21), 6);
        assert_eq!(history.check(&[1, 3, 6, 7, 7, 7]), Ok(()));
    }

    #[test]
    fn each_untrue_answer_is_found() {
        let mut one = History::default();
        write(&mut one, 5, Answer::Total(5), 1);
        assert_wrong(&one, &[], "not stored");
        assert_wrong(&one, &[5, 6, 5], "twice");
        assert_wrong(&one, &[5, 5], "2 of 1");
        assert_wrong(&one, &[1, 5], "the total was 6");
        assert_wrong(&one, &[5, 9], "no command explains");
        for refused in [Answer::NotStored, Answer::Closed] {
            let mut history = History::default();
            write(&mut history, 5, refused, 1);
            assert_wrong(&history, &[5], "stored at 1");
        }
        let mut early = History::default();
        write(&mut early, 5, Answer::Total(5), 0);
        assert_wrong(&early, &[5], "not durable");
        let mut torn = History::default();
        torn.sent(Stores::Number { number: 5, times: 3 }, true);
        assert_wrong(&torn, &[5, 5], "2 of 3");
        let mut reversed = History::default();
        write(&mut reversed, 1, Answer::Unknown, 1);
        write(&mut reversed, 2, Answer::Unknown, 1);
        assert_wrong(&reversed, &[2, 1], "before what was sent earlier");
        let mut foreign = History::default();
        foreign.written_by_another(5);
        assert_wrong(&foreign, &[], "another writer's 5");
    }

    #[test]
    fn a_read_of_what_never_was_or_of_the_past_is_found() {
        let mut never = History::default();
        let read = never.sent(Stores::Nothing, true);
        write(&mut never, 5, Answer::Total(5), 1);
        never.answered(read, Answer::Total(3), 1);
        assert_wrong(&never, &[5], "never was");
        let mut past = History::default();
        write(&mut past, 5, Answer::Total(5), 1);
        let read = past.sent(Stores::Nothing, true);
        past.answered(read, Answer::Total(0), 1);
        assert_wrong(&past, &[5], "older than an answer");
    }
}
