use journal_actix::Durable;
use journal_core::EventSourced;
use journal_derive::PersistentActor;

#[derive(PersistentActor)]
#[persistent(snapshots = 3, crate = journal_actix)]
struct Unknown {
    #[persistent(id)]
    id: String,
    #[persistent(state)]
    state: Durable<Model>,
}

#[derive(PersistentActor)]
#[persistent(a::b, crate = journal_actix)]
struct AtPath {
    #[persistent(id)]
    id: String,
    #[persistent(state)]
    state: Durable<Model>,
}

#[derive(PersistentActor)]
#[persistent(strict, strict, crate = journal_actix)]
struct Twice {
    #[persistent(id)]
    id: String,
    #[persistent(state)]
    state: Durable<Model>,
}

#[derive(PersistentActor)]
#[persistent(max_waiting = 3, max_waiting = 4, crate = journal_actix)]
struct TwiceWithValue {
    #[persistent(id)]
    id: String,
    #[persistent(state)]
    state: Durable<Model>,
}

#[derive(PersistentActor)]
#[persistent(strict = true, crate = journal_actix)]
struct FlagWithValue {
    #[persistent(id)]
    id: String,
    #[persistent(state)]
    state: Durable<Model>,
}

#[derive(PersistentActor)]
#[persistent(keep = 3, crate = journal_actix)]
struct KeepAlone {
    #[persistent(id)]
    id: String,
    #[persistent(state)]
    state: Durable<Model>,
}

#[derive(PersistentActor)]
#[persistent(delete_events, crate = journal_actix)]
struct DeleteAlone {
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
