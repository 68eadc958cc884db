//! Prompts and the messages of a conversation.

use serde::{Deserialize, Serialize};

/// The author of a message.
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
    /// Returns the name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        }
    }

    /// Returns the role with this wire name.
    pub fn from_name(name: &str) -> Option<Role> {
        [Role::User, Role::Assistant, Role::Tool].into_iter().find(|it| it.name() == name)
    }
}

/// A tool call as written by the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Links the result to the call.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// Its arguments as written by the model, not validated yet.
    pub arguments_json: String,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The author.
    pub role: Role,
    /// The text. The caller marks document text as data.
    pub content: String,
    /// Tool calls that the model made in this message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// For a tool result: the id of the call, and the tool's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<(String, String)>,
}

impl Message {
    /// Creates a plain message.
    pub fn new(role: Role, content: impl Into<String>) -> Message {
        Message { role, content: content.into(), tool_calls: Vec::new(), answers: None }
    }

    /// Creates a message of the model with its tool calls.
    pub fn with_calls(content: String, tool_calls: Vec<ToolCall>) -> Message {
        Message { tool_calls, ..Message::new(Role::Assistant, content) }
    }

    /// Creates the message with the result of a call.
    pub fn result(call: &ToolCall, content: String) -> Message {
        Message { answers: Some((call.id.clone(), call.name.clone())), ..Message::new(Role::Tool, content) }
    }
}

/// A prompt: system prompt, conversation, and images that belong to the last message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    /// System prompt; may be empty.
    pub system: String,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// Encoded images (PNG, JPEG, WebP, GIF).
    pub attachments: Vec<Vec<u8>>,
}

impl Prompt {
    /// Creates a prompt with one user message.
    pub fn user(content: impl Into<String>) -> Prompt {
        Prompt { messages: vec![Message::new(Role::User, content)], ..Prompt::default() }
    }

    /// Sets the system prompt.
    #[must_use]
    pub fn system(self, system: impl Into<String>) -> Prompt {
        Prompt { system: system.into(), ..self }
    }
}
