package reservations

import (
	"bytes"
	"encoding/json"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/lifetime"
	"github.com/croft-edge/croft/pkg/workload"
)

func (s *commands) signCommand() *cli.Command {
	return &cli.Command{
		Name: "sign", Usage: "sign a reservation and print the document", Action: s.sign,
		Description: "Starts from the document of -f when there is one; the flags win. Data is checked before it is signed, unless --unchecked is given.\n\n" +
			"Examples:\n  croft reservation sign --node 5f4NodeID… --type volume --data '{\"size\":1,\"type\":\"SSD\"}' --duration 1h\n" +
			"  croft reservation sign -f r.json --duration 2d > signed.json",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "a document to start from (- for the standard input)", TakesFile: true},
			&cli.StringFlag{Name: "node", Usage: "the `NODE` that is to provide the workload"},
			&cli.StringFlag{Name: "type", Usage: "container, volume, network, zdb, kubernetes or debug"},
			&cli.StringFlag{Name: "data", Usage: "the type's arguments in `JSON`"},
			&cli.StringFlag{Name: "duration", Usage: "how long, as in 1h or 30d"},
			&cli.StringFlag{Name: "created", Usage: "the `TIME` of signing (default: now)"},
			&cli.BoolFlag{Name: "v1", Usage: "sign as version 1, which covers neither dates nor deletion"},
			&cli.BoolFlag{Name: "unchecked", Usage: "sign whatever the data is"},
		},
	}
}

func (s *commands) sign(c *cli.Context) error {
	if _, err := shell.Arguments(c, 0, 0, "no argument"); err != nil {
		return err
	}
	r, err := s.unsigned(c)
	if err != nil {
		return err
	}
	key, err := s.Key(c)
	if err != nil {
		return err
	}
	r.User, r.Version = key.ID(), workload.V2
	if c.Bool("v1") {
		r.Version = workload.V1
	}
	if err := r.Sign(key.Private()); err != nil {
		return err
	}
	if err := workload.Validate(&r); err != nil && !c.Bool("unchecked") {
		return err
	}
	if r.Version == workload.V1 {
		// The seed's documents don't say their version; absent means 1.
		r.Version = 0
	}
	out, err := workload.Encode(&r)
	if err != nil {
		return err
	}
	_, err = s.Env.Stdout.Write(append(out, '\n'))
	return err
}

// unsigned is the document that the file and the flags describe. Members that come
// of a signature are taken out.
func (s *commands) unsigned(c *cli.Context) (workload.Reservation, error) {
	var r workload.Reservation
	if name := c.String("file"); name != "" {
		content, err := s.readDocument(name)
		if err != nil {
			return r, err
		}
		draft, err := workload.DecodeDraft(content)
		if err != nil {
			return r, err
		}
		r = *draft
		r.ID, r.Nonce, r.Signature, r.Deletion, r.Renewal = "", nil, nil, nil, nil
	}
	r.Created = s.Env.Now()
	if err := applyFlags(c, &r); err != nil {
		return r, err
	}
	var compact bytes.Buffer
	if len(r.Data) > 0 && json.Compact(&compact, r.Data) != nil {
		return r, shell.Usagef("--data isn't JSON")
	}
	// The signature covers the data as it is sent: compact, with <, > and & escaped.
	var escaped bytes.Buffer
	json.HTMLEscape(&escaped, compact.Bytes())
	r.Data = escaped.Bytes()
	return r, nil
}

func applyFlags(c *cli.Context, r *workload.Reservation) (err error) {
	if v := c.String("node"); v != "" {
		r.NodeID = v
	}
	if v := c.String("type"); v != "" {
		r.Type = workload.Type(v)
	}
	if v := c.String("data"); v != "" {
		r.Data = json.RawMessage(v)
	}
	if v := c.String("duration"); v != "" {
		if r.Duration, err = lifetime.Parse(v); err != nil {
			return shell.Usage(errors.Wrap(err, "--duration"))
		}
	}
	if v := c.String("created"); v != "" {
		if r.Created, err = lifetime.ParseTime(v); err != nil {
			return shell.Usage(errors.Wrap(err, "--created"))
		}
	}
	return nil
}
