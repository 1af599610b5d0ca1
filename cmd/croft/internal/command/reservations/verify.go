package reservations

import (
	"encoding/hex"
	"time"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/deploy"
	"github.com/croft-edge/croft/cmd/croft/internal/render"
	"github.com/croft-edge/croft/cmd/croft/internal/state"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/workload"
)

// proof is the answer of verify about a document.
type proof struct {
	Verified bool           `json:"verified"`
	Problem  string         `json:"problem"`
	ID       string         `json:"id"`
	Hash     string         `json:"hash"`
	Version  int            `json:"version"`
	User     string         `json:"user"`
	Node     string         `json:"node"`
	Type     workload.Type  `json:"type"`
	Created  time.Time      `json:"created"`
	Expires  time.Time      `json:"expires"`
	Deletion bool           `json:"deletion"`
	Renewal  bool           `json:"renewal"`
	State    workload.State `json:"state"`
	Error    string         `json:"error"`
}

func (s *commands) verify(c *cli.Context) error {
	content, err := s.input(c)
	if err != nil {
		return err
	}
	r, result, err := workload.DecodeShown(content)
	if err != nil {
		return err
	}
	p := prove(explorer.Reservation{Reservation: *r, Result: result})
	rows := render.Rows{Head: []string{"ID", p.ID}, Rows: [][]string{
		{"user", p.User}, {"node", p.Node}, {"type", string(p.Type)}, {"hash", p.Hash},
		{"created", render.Clock(p.Created)}, {"expires", render.Clock(p.Expires)},
		{"deletion", render.YesNo(p.Deletion)}, {"renewal", render.YesNo(p.Renewal)},
		{"state", string(p.State)}, {"error", p.Error}, {"verified", render.YesNo(p.Verified)},
	}}
	if err := s.Answer(c, p, rows); err != nil {
		return err
	}
	if !p.Verified {
		return errors.New("cannot verify: " + p.Problem)
	}
	return nil
}

// prove checks every signature that the document carries.
func prove(shown explorer.Reservation) proof {
	r := &shown.Reservation
	out := proof{
		ID: r.ID, Version: r.DocumentVersion(), User: r.User, Node: r.NodeID, Type: r.Type,
		Created: r.Created, Expires: r.Expires(), Deletion: r.Deletion != nil, Renewal: r.Renewal != nil,
	}
	if hash, err := r.Hash(); err == nil {
		out.Hash = hex.EncodeToString(hash[:])
	}
	if err := signatures(r); err != nil {
		out.Problem = err.Error()
		return out
	}
	o := deploy.Judged(nil, shown, state.Seen{})
	out.State, out.Error, out.Problem = o.State, o.Error, o.Problem
	out.Verified = o.Problem == ""
	return out
}

// signatures checks those of the user.
func signatures(r *workload.Reservation) error {
	if err := workload.Verify(r); err != nil {
		return err
	}
	if r.Deletion != nil {
		if err := workload.VerifyDeletion(r); err != nil {
			return errors.Wrap(err, "deletion")
		}
	}
	if r.Renewal != nil {
		if err := workload.VerifyRenewal(r); err != nil {
			return errors.Wrap(err, "renewal")
		}
	}
	return nil
}
