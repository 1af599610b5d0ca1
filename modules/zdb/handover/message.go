package handover

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/pkg/errors"
)

const (
	// version is that of the protocol.
	version = 1
	// maxLine is how long a line may be with its end, in bytes; maxText what of
	// an error goes into one.
	maxLine = 4096
	maxText = 500
	// MaxListeners is how many listening sockets a zdb may have. The kernel lets
	// 253 descriptors pass at once.
	MaxListeners = 64
)

// greeting is the zdb's first line.
type greeting struct {
	Version   int    `json:"version"`
	Listeners int    `json:"listeners"`
	Error     string `json:"error,omitempty"`
}

// request is what the node's end may ask for.
type request struct {
	Take int `json:"take"`
}

// reply is what it gets.
type reply struct {
	OK    bool   `json:"ok,omitempty"`
	Error string `json:"error,omitempty"`
}

// encode makes the line of a message.
func encode(message any) []byte {
	raw, err := json.Marshal(message)
	if err != nil {
		panic(err) // they hold nothing but numbers and text
	}
	return append(raw, '\n')
}

// decode reads a line, which must hold one JSON object.
func decode[M any](line []byte) (M, error) {
	var m M
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] != '{' {
		return m, errors.New("it isn't a JSON object")
	}
	return m, json.Unmarshal(line, &m)
}

// shown is what of another's text can be shown: one short line.
func shown(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}
