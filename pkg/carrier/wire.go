package carrier

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
)

// Kind is one sort of carrier: the agreement of its processes and its clients.
type Kind struct {
	// Name is the name of its folder below {run}, Title its name in errors.
	Name, Title string
	// Protocol is the version of its operations and their documents. A client and
	// a carrier of different ones have opInfo and opStop in common, for ever.
	Protocol int
	// MaxRequest and MaxAnswer bound a line, in bytes.
	MaxRequest, MaxAnswer int64
}

// Folder is the folder of the carrier of this kind, for the node of runDir.
func (k Kind) Folder(runDir string) Folder { return FolderOf(runDir, k.Name) }

// The operations of every carrier.
const (
	opInfo = "info"
	opStop = "stop"
)

// A request is one line of JSON, and so is its answer; a connection carries one of
// each. Either is an object that begins with the members of a head, followed by those
// of the operation's own document.

type requestHead struct {
	Version int    `json:"version"`
	Op      string `json:"op"`
}

type answerHead struct {
	Version int      `json:"version"`
	Error   *failure `json:"error,omitempty"`
}

// Nothing is the document of a request or an answer that has no members of its own.
type Nothing struct{}

// Info describes a carrier. A kind's own Info embeds it.
type Info struct {
	PID int `json:"pid"`
	// Protocol is its Kind's, Version croft's.
	Protocol int       `json:"protocol"`
	Version  string    `json:"version"`
	Started  time.Time `json:"started"`
	// Memory is its RssAnon in bytes.
	Memory uint64 `json:"memory"`
}

// infoAnswer is the document that answers opInfo and opStop; I is a kind's Info.
type infoAnswer[I any] struct {
	Info *I `json:"info,omitempty"`
}

// failure is the form of an error on the socket.
type failure struct {
	Kind    node.Kind `json:"kind"`
	Message string    `json:"message"`
}

// failureOf is the failure of an error, nil for none.
func failureOf(err error) *failure {
	if err == nil {
		return nil
	}
	return &failure{Kind: node.KindOf(err), Message: err.Error()}
}

// err restores the error.
func (f *failure) err() error {
	if f == nil {
		return nil
	}
	kind := f.Kind
	if !kind.Known() {
		kind = node.Internal
	}
	return node.Errorf(kind, "%s", f.Message)
}

// encode makes one object of the members of a head and of a document.
func encode(head, document any) ([]byte, error) {
	first, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	rest, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	if rest[0] != '{' {
		return nil, errors.Errorf("a %T isn't an object", document)
	}
	if rest = rest[1:]; len(rest) > 1 {
		rest = append([]byte{','}, rest...)
	}
	return append(first[:len(first)-1], rest...), nil
}

// decodeRequest reads the document of a request. An unknown member is an error.
func decodeRequest(line []byte, into any) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(line, &members); err != nil {
		return err
	}
	delete(members, "version")
	delete(members, "op")
	own, err := json.Marshal(members)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(own))
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}

// decodeAnswer reads the head and the document of an answer. Unknown members are
// ignored: a newer carrier may send more.
func decodeAnswer(line []byte, into any) (head answerHead, err error) {
	if err = json.Unmarshal(line, &head); err == nil {
		err = json.Unmarshal(line, into)
	}
	return head, err
}
