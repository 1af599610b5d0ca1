package userapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodeapi"
)

// maxTail is the maximum of lines that tail may ask for; without tail, all are sent.
const maxTail = 1_000_000

func (d *Door) status(w http.ResponseWriter, r request) error {
	s, err := d.Workloads.Status(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeJSON(w, s)
}

func (d *Door) events(w http.ResponseWriter, r request) error {
	all, err := d.Workloads.Events(r.Context(), r.PathValue("id"), r.user)
	if err != nil {
		return err
	}
	return writeJSON(w, nodeapi.Events{Events: all})
}

// delete carries out a deletion that the explorer withholds. The workload must be on the node: only the
// explorer assigns IDs, and no user may occupy one here.
func (d *Door) delete(w http.ResponseWriter, r request) error {
	var in nodeapi.Deletion
	if err := decode(r.body, &in); err != nil {
		return err
	}
	if err := d.owns(r, in.ID); err != nil {
		return err
	}
	d.Log.Info().Str("id", in.ID).Str("user", r.user).Str("remote", r.RemoteAddr).Msg("deletion received at the door")
	if err := d.Workloads.Delete(r.Context(), in.ID, in.Deletion); err != nil {
		return err
	}
	s, err := d.Workloads.Status(r.Context(), in.ID)
	if err != nil {
		return err
	}
	return writeJSON(w, s)
}

func decode(body []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return node.Errorf(node.Invalid, "cannot read the body: %w", err)
	}
	if dec.More() {
		return node.Errorf(node.Invalid, "cannot read the body: more than one JSON value")
	}
	return nil
}

func (d *Door) logs(w http.ResponseWriter, r request) error {
	q := r.URL.Query()
	o := nodeapi.LogOptions{Tail: -1}
	if text := q.Get("tail"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > maxTail {
			return node.Errorf(node.Invalid, "cannot read logs: tail is %q, must be 0 to %d", short(text), maxTail)
		}
		o.Tail = n
	}
	var err error
	if o.Follow, err = flag(q, "follow"); err != nil {
		return err
	}
	if d.Streams == nil {
		return noContainers()
	}
	return d.stream(w, r, func(out *lineWriter) error {
		return d.Streams.Logs(out.ctx, r.PathValue("id"), o, func(l node.LogLine) error { return out.value(nodeapi.LogLine(l)) })
	})
}

func (d *Door) stats(w http.ResponseWriter, r request) error {
	watch, err := flag(r.URL.Query(), "watch")
	if err != nil {
		return err
	}
	if d.Streams == nil {
		return noContainers()
	}
	if !watch {
		s, err := d.Streams.Stats(r.Context(), r.PathValue("id"))
		if err != nil {
			return err
		}
		return writeJSON(w, nodeapi.Stats(s))
	}
	return d.stream(w, r, func(out *lineWriter) error { return d.watch(out, r.PathValue("id")) })
}

func flag(q url.Values, name string) (bool, error) {
	switch text := q.Get(name); text {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, node.Errorf(node.Invalid, "cannot answer: %s is %q, must be true or false", name, short(text))
	}
}

func noContainers() error {
	return node.Errorf(node.Refused, "cannot do this: the node has no containers")
}
