package handover

import (
	"bytes"
	"encoding/json"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/clip"
)

const (
	// version is that of the protocol.
	version = 1
	// maxLine is the maximum length of a line with its end, in bytes; maxText that of
	// an error's text in it.
	maxLine = 4096
	maxText = 500
	// MaxListeners is the maximum number of a zdb's listening sockets. The kernel
	// passes at most 253 descriptors at once.
	MaxListeners = 64
)

// greeting is the zdb's first line.
type greeting struct {
	Version   int    `json:"version"`
	Listeners int    `json:"listeners"`
	Error     string `json:"error,omitempty"`
}

// request is a line of the node.
type request struct {
	Take int `json:"take"`
}

// reply is the zdb's answer to a request.
type reply struct {
	OK    bool   `json:"ok,omitempty"`
	Error string `json:"error,omitempty"`
}

// encode makes the line of a message.
func encode(message any) []byte {
	raw, err := json.Marshal(message)
	if err != nil {
		panic(err) // messages hold only numbers and text
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

// shown is another process' text as one short line.
func shown(text string) string { return clip.Line(text, maxText) }
