use journal_actix::Durable;
use journal_core::EventSourced;
use journal_derive::PersistentActor;

#[derive(PersistentActor)]
#[persistent(snapshot_every = "100", crate = journal_actix)]
struct Text {
    #[persistent(id)]
    id: String,
    #[persistent(state)]
    state: Durable<Model>,
}

#[derive(PersistentActor)]
#[persistent(snapshot_every = 0, crate = journal_actix)]
struct Zero {
    #[persistent(id)]
    id: String,
    #[persistent(state)]
    state: Durable<Model>,
}

#[derive(PersistentActor)]
#[persistent(max_waiting, crate = journal_actix)]
struct NoValue {
    #[persistent(id)]
    id: String,
    #[persistent(state)]
    state: Durable<Model>,
}

#[derive(PersistentActor)]
#[persistent(append_limits(3), crate = journal_actix)]
struct OneOfTwo {
    #[persistent(id)]
    id: String,
    #[persistent(state)]
    state: Durable<Model>,
}

#[derive(PersistentActor)]
#[persistent(unknown_wait = "30", crate = journal_actix)]
struct Duration {
    #[persistent(id)]
    id: String,
    #[persistent(state)]
    state: Durable<Model>,
}

#[derive(PersistentActor)]
#[persistent(unknown_wait = 30, crate = journal_actix)]
struct DurationNumber {
    #[persistent(id)]
    id: String,
    #[persistent(state)]
    state: Durable<Model>,
}

#[derive(PersistentActor)]
#[persistent(unknown_wait = "0s", crate = journal_actix)]
struct ZeroDuration {
    #[persistent(id)]
    id: String,
    #[persistent(state)]
    state: Durable<Model>,
}

#[derive(PersistentActor)]
#[persistent(backoff("30s", "1s"), crate = journal_actix)]
struct Backwards {
    #[persistent(id)]
    id: String,
    #[persistent(state)]
    state: Durable<Model>,
}

struct Model;

impl EventSourced for Model {
    type Event = Nothing;
    type State = ();
    fn apply(_: &mut (), _: &Nothing) {}
}

#[derive(serde::Serialize, serde::Deserialize, journal_derive::Event)]
#[event(manifest = "nothing", crate = journal_core)]
struct Nothing;

fn main() {}
