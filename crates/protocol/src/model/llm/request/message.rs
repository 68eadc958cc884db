//! Prompts and the messages of a conversation.

use serde::{Deserialize, Serialize};

/// The author of a message in a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The program that calls the model, on behalf of the user.
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

/// A tool call, as the model wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Id of the call, which its result repeats.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments of the call as the model wrote them, not validated yet.
    pub arguments_json: String,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Author of the message.
    pub role: Role,
    /// Text of the message. The caller must mark document text as data, not as instructions.
    pub content: String,
    /// Tool calls that the model made in this message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// For a tool result: the id of the call and the name of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<(String, String)>,
}

impl Message {
    /// Creates a message without tool calls.
    pub fn new(role: Role, content: impl Into<String>) -> Message {
        Message { role, content: content.into(), tool_calls: Vec::new(), answers: None }
    }

    /// Creates a message of the model that contains tool calls.
    pub fn with_calls(content: String, tool_calls: Vec<ToolCall>) -> Message {
        Message { tool_calls, ..Message::new(Role::Assistant, content) }
    }

    /// Creates the message that returns the result of a tool call to the model.
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
