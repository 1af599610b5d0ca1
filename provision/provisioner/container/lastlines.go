package container

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

const (
	// lastLines are told of one that ended too soon, mostLastBytes of them at most.
	lastLines     = 10
	mostLastBytes = 2 << 10
	// writing is how long what carries its output may take to have written all of it.
	writing = 300 * time.Millisecond
)

// endedError is that a container has ended too soon, and the last that it said.
type endedError struct {
	why  string
	last string
}

func (e *endedError) Error() string { return e.why }

// sealed is the data of the result that says so: only its user reads it. Nil when it
// said nothing.
func (e *endedError) sealed(user string) json.RawMessage {
	if e.last == "" {
		return nil
	}
	box, err := sign.Seal(user, []byte(e.last))
	if err != nil {
		return nil
	}
	data, err := json.Marshal(workload.ContainerFailure{LastLines: hex.EncodeToString(box)})
	if err != nil {
		return nil
	}
	return data
}

// lastLines are the last that a container said, as far as the module tells.
func (w watch) lastLines(ctx context.Context, id string) string {
	written := time.NewTimer(min(writing, w.enough))
	defer written.Stop()
	select {
	case <-written.C:
	case <-ctx.Done():
	}
	lines, err := w.containers.Logs(ctx, id, lastLines)
	if err != nil {
		return ""
	}
	out := &strings.Builder{}
	for _, l := range lines {
		out.WriteString(l.Text + "\n")
	}
	text := out.String()
	return text[max(0, len(text)-mostLastBytes):]
}
