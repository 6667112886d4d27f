//! Durable, event-sourced actors.
