//! The tables by which errors are told apart: typed codes, and words where servers have none.

use super::Class;

/// Codes, types and reasons, lower case. Generic ones (`invalid_request_error`) are not here: the words decide then.
pub const CODES: [(&str, Class); 44] = [
    ("context_length_exceeded", Class::Context),
    ("exceed_context_size_error", Class::Context),
    ("tokens_too_long", Class::Context),
    ("request_too_large", Class::Context),
    ("1261", Class::Context),
    ("insufficient_quota", Class::Billing),
    ("insufficient_balance", Class::Billing),
    ("insufficient_user_quota", Class::Billing),
    ("exceeded_current_quota_error", Class::Billing),
    ("billing_hard_limit_reached", Class::Billing),
    ("billing_not_active", Class::Billing),
    ("billing_error", Class::Billing),
    ("payment_required", Class::Billing),
    ("arrearage", Class::Billing),
    ("creditserror", Class::Billing),
    ("1113", Class::Billing),
    ("1308", Class::Billing),
    ("1309", Class::Billing),
    ("1310", Class::Billing),
    ("invalid_api_key", Class::Auth),
    ("api_key_invalid", Class::Auth),
    ("incorrect_api_key", Class::Auth),
    ("authentication_error", Class::Auth),
    ("invalid_authentication_error", Class::Auth),
    ("unauthenticated", Class::Auth),
    ("permission_error", Class::Auth),
    ("rate_limit_exceeded", Class::RateLimit),
    ("rate_limit_error", Class::RateLimit),
    ("rate_limit_reached_error", Class::RateLimit),
    ("engine_overloaded_error", Class::RateLimit),
    ("resource_exhausted", Class::RateLimit),
    ("throttling", Class::RateLimit),
    ("throttlingexception", Class::RateLimit),
    ("1302", Class::RateLimit),
    ("1303", Class::RateLimit),
    ("1305", Class::RateLimit),
    ("tool_use_failed", Class::Transient),
    ("overloaded_error", Class::Transient),
    ("content_filter", Class::Fatal),
    ("content_policy_violation", Class::Fatal),
    ("responsibleaipolicyviolation", Class::Fatal),
    ("data_inspection_failed", Class::Fatal),
    ("datainspectionfailed", Class::Fatal),
    ("1301", Class::Fatal),
];

/// Words of a throttle; they come before those of the context window, which they quote ("too many tokens").
pub const THROTTLE: [&str; 10] = [
    "throttl",
    "rate limit",
    "rate_limit",
    "ratelimit",
    "too many requests",
    "please wait",
    "tokens per min",
    "tokens per day",
    "requests per min",
    "(tpm)",
];

/// Overflow of the context window, by all servers that have no code for it.
pub const CONTEXT: [&str; 22] = [
    "maximum context length",
    "context length of",
    "context_length",
    "context window",
    "context size",
    "context limit",
    "model's context length",
    "greater than the context length",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "input length too long",
    "input token count",
    "input token length too long",
    "model token limit",
    "maximum prompt length",
    "too large for model with",
    "reduce the length of",
    "prompt exceeds",
    "exceeds max length",
    "exceed max message tokens",
    "maximum allowed input",
];

/// Money, or a quota that does not come back by waiting a minute.
pub const BILLING: [&str; 16] = [
    "insufficient balance",
    "insufficient_balance",
    "insufficient credit",
    "insufficient funds",
    "exceeded your current quota",
    "usage limit for this",
    "billing cycle",
    "requires more credits",
    "out of credits",
    "not enough credits",
    "no credits",
    "credit balance is too low",
    "no resource package",
    "payment required",
    "余额不足",
    "欠费",
];

/// Refused keys where the status does not say so.
pub const AUTH: [&str; 6] = [
    "api key not valid",
    "invalid api key",
    "incorrect api key",
    "invalid api-key",
    "invalid token",
    "no auth credentials",
];

/// Deterministic: the same bytes will fail again, whatever the status says.
pub const TEMPLATE: [&str; 8] = [
    "jinja",
    "templateerror",
    "template error",
    "raise_exception",
    "roles must alternate",
    "system message must be at the beginning",
    "does not support tools",
    "does not support thinking",
];

/// A filter of the provider refused the request.
pub const FILTER: [&str; 4] = [
    "content management policy",
    "content_filter",
    "content filter",
    "data_inspection_failed",
];

/// For errors without any status: what passes by itself.
pub const PASSING: [&str; 17] = [
    "overloaded",
    "server_error",
    "server error",
    "internal_error",
    "internal error",
    "unavailable",
    "timeout",
    "timed out",
    "try again later",
    "at capacity",
    "no capacity",
    "upstream",
    "disconnected",
    "connection reset",
    "connection refused",
    "connection closed",
    "network",
];
