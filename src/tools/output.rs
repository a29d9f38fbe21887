//! Cutting long output for the model.
