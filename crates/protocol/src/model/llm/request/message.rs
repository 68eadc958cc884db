//! What is said: a prompt, and the conversation that it begins.

use serde::{Deserialize, Serialize};

/// Who said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The program, on behalf of the user.
    User,
    /// The model.
    Assistant,
    /// A tool that the model called.
    Tool,
}

impl Role {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        }
    }

    /// The one of that name.
    pub fn from_name(name: &str) -> Option<Role> {
        [Role::User, Role::Assistant, Role::Tool].into_iter().find(|it| it.name() == name)
    }
}

/// A call of a tool, as the model made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Ties the result to the call.
    pub id: String,
    /// Which tool.
    pub name: String,
    /// Its arguments, as the model wrote them; not checked yet.
    pub arguments_json: String,
}

/// Something that was said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// By whom.
    pub role: Role,
    /// What. Text of documents is marked as data by the caller.
    pub content: String,
    /// Tools that the model called with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Of a tool's result: the id of the call, and the tool's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<(String, String)>,
}

impl Message {
    /// A plain message.
    pub fn new(role: Role, content: impl Into<String>) -> Message {
        Message { role, content: content.into(), tool_calls: Vec::new(), answers: None }
    }

    /// What the model said, with its calls.
    pub fn with_calls(content: String, tool_calls: Vec<ToolCall>) -> Message {
        Message { tool_calls, ..Message::new(Role::Assistant, content) }
    }

    /// The result of a call.
    pub fn result(call: &ToolCall, content: String) -> Message {
        Message { answers: Some((call.id.clone(), call.name.clone())), ..Message::new(Role::Tool, content) }
    }
}

/// A prompt: what the model is to be, the conversation, and images that belong to its last message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    /// What the model is to be; may be empty.
    pub system: String,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// Encoded images (PNG, JPEG, WebP, GIF).
    pub attachments: Vec<Vec<u8>>,
}

impl Prompt {
    /// A prompt with one message of the user.
    pub fn user(content: impl Into<String>) -> Prompt {
        Prompt { messages: vec![Message::new(Role::User, content)], ..Prompt::default() }
    }

    /// The same with what the model is to be.
    #[must_use]
    pub fn system(self, system: impl Into<String>) -> Prompt {
        Prompt { system: system.into(), ..self }
    }
}
