//! An actor that keeps texts, generic over its event and state types, so that both can change between two lives.

use std::marker::PhantomData;

use actor_journal::{
    Command, Effect, Effects, Event, EventSourced, Handles, PersistError, Persistence, Persistent, Signal,
    persistent,
    ractor::{PersistentRef, SpawnError, SpawnPersistent},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// An event type with a text.
pub(crate) trait Fact: Event {
    fn new(text: String) -> Self;
    fn text(&self) -> &str;
}

/// A state type that keeps texts.
pub(crate) trait Pages: Default + Serialize + DeserializeOwned + Send + Sync + 'static {
    const VERSION: u32;
    fn add(&mut self, text: &str);
    fn texts(&self) -> Vec<String>;
}

macro_rules! fact {
    ($name:ident, $manifest:literal $(, $version:literal)?) => {
        #[derive(Serialize, Deserialize, Event)]
        #[event(manifest = $manifest $(, version = $version)?)]
        pub(crate) struct $name {
            #[serde(serialize_with = "expressible")]
            text: String,
        }

        impl Fact for $name {
            fn new(text: String) -> Self {
                Self { text }
            }
            fn text(&self) -> &str {
                &self.text
            }
        }
    };
}

fact!(Noted, "noted", 1);
fact!(Renamed, "written", 1);
fact!(Newer, "noted", 2);
fact!(Unversioned, "noted");

/// What no codec can express.
pub(crate) const UNSPEAKABLE: &str = "unspeakable";

fn expressible<S: serde::Serializer>(text: &String, serializer: S) -> Result<S::Ok, S::Error> {
    if text == UNSPEAKABLE {
        return Err(serde::ser::Error::custom("it is unspeakable"));
    }
    serializer.serialize_str(text)
}

macro_rules! pages {
    ($name:ident, $version:literal $(, $more:ident)*) => {
        #[derive(Default, Serialize, Deserialize)]
        pub(crate) struct $name {
            texts: Vec<String>,
            $($more: u64,)*
        }

        impl Pages for $name {
            const VERSION: u32 = $version;
            fn add(&mut self, text: &str) {
                self.texts.push(text.to_owned());
                $(self.$more += 1;)*
            }
            fn texts(&self) -> Vec<String> {
                self.texts.clone()
            }
        }
    };
}

pages!(Original, 1, count);
pages!(WithoutField, 1);
pages!(WithNewField, 1, count, authors);
pages!(WithNewFieldAndVersion, 2, count, authors);
pages!(WithoutVersion, 0, count);

pub(crate) struct Notebook<E = Noted, S = Original> {
    types: PhantomData<fn() -> (E, S)>,
    told: Box<dyn Fn(&Signal) + Send + Sync>,
}

impl<E: Fact, S: Pages> EventSourced for Notebook<E, S> {
    type Event = E;
    type State = S;
    const STATE_VERSION: u32 = S::VERSION;

    fn apply(state: &mut S, event: &E) {
        state.add(event.text());
    }

    fn signal(&self, signal: &Signal) {
        (self.told)(signal);
    }
}

/// The default types.
pub(crate) fn notebook(id: impl Into<String>) -> Persistent<Notebook> {
    changed(id)
}

/// Other types.
pub(crate) fn changed<E: Fact, S: Pages>(id: impl Into<String>) -> Persistent<Notebook<E, S>> {
    listening(id, |_| {})
}

/// With somebody who is told of its signals.
pub(crate) fn listening<E: Fact, S: Pages>(
    id: impl Into<String>,
    told: impl Fn(&Signal) + Send + Sync + 'static,
) -> Persistent<Notebook<E, S>> {
    let model = Notebook {
        types: PhantomData,
        told: Box::new(told),
    };
    persistent(model, id)
}

#[derive(Debug)]
pub(crate) struct Failed(pub(crate) PersistError);

impl From<PersistError> for Failed {
    fn from(error: PersistError) -> Self {
        Self(error)
    }
}

struct Note(Vec<String>);

impl Command for Note {
    type Reply = Result<usize, Failed>;
}

impl<E: Fact, S: Pages> Handles<Note> for Notebook<E, S> {
    fn handle(&self, _: &S, Note(texts): Note) -> Effect<Self, Result<usize, Failed>> {
        self.persist_all(texts.into_iter().map(E::new))
            .then_reply(|state| Ok(state.texts().len()))
    }
}

struct Read;

impl Command for Read {
    type Reply = Result<Vec<String>, Failed>;
}

impl<E: Fact, S: Pages> Handles<Read> for Notebook<E, S> {
    fn handle(&self, state: &S, Read: Read) -> Effect<Self, Result<Vec<String>, Failed>> {
        self.reply(Ok(state.texts()))
    }
}

/// Persists the texts at once; the number of texts then.
pub(crate) async fn note<E: Fact, S: Pages>(
    notebook: &PersistentRef<Notebook<E, S>>,
    texts: &[&str],
) -> Result<usize, PersistError> {
    let texts = texts.iter().map(|text| (*text).to_owned()).collect();
    notebook
        .ask(Note(texts))
        .await
        .unwrap()
        .map_err(|Failed(error)| error)
}

pub(crate) async fn read<E: Fact, S: Pages>(notebook: &PersistentRef<Notebook<E, S>>) -> Vec<String> {
    notebook.ask(Read).await.unwrap().unwrap()
}

/// What recovers.
pub(crate) async fn recover<E: Fact, S: Pages>(
    notebook: Persistent<Notebook<E, S>>,
    persistence: &Persistence,
) -> Result<Vec<String>, SpawnError> {
    let notebook = notebook.spawn(persistence).await?;
    let texts = read(&notebook).await;
    notebook.stop().await;
    Ok(texts)
}

/// Persists the texts, one by one, as the default types.
pub(crate) async fn write(notebook: Persistent<Notebook>, persistence: &Persistence, texts: &[&str]) {
    let notebook = notebook.spawn(persistence).await.unwrap();
    for text in texts {
        note(&notebook, &[text]).await.unwrap();
    }
    notebook.stop().await;
}
