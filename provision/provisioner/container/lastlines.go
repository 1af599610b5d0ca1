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
	// lastLines of a container that ended too soon are reported, at most mostLastBytes.
	lastLines     = 10
	mostLastBytes = 2 << 10
	// writing is how long to wait until all of a container's output is in its log.
	writing = 300 * time.Millisecond
)

// endedError reports that a container ended too soon, with its last lines of output.
type endedError struct {
	why  string
	last string
}

func (e *endedError) Error() string { return e.why }

// sealed is the data of the failure's result: the last lines, sealed to the user.
// Nil when there are none, or sealing fails.
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

// lastLines returns a container's last lines of output; empty if the module fails.
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
