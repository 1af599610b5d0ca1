package reservations

import (
	"encoding/json"
	"io"
	"os"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/lifetime"
	"github.com/croft-edge/croft/cmd/croft/internal/render"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/workload"
)

// maxDocument bounds a document's size in bytes; the explorer takes less.
const maxDocument = 4 << 20

// commands are run on single documents.
type commands struct{ *shell.Shell }

// Command is `croft reservation`.
func Command(sh *shell.Shell) *cli.Command {
	s := &commands{sh}
	return &cli.Command{
		Name: "reservation", Category: "raw documents", Usage: "sign, push, get and verify single documents in JSON",
		Subcommands: []*cli.Command{
			s.signCommand(),
			{
				Name: "push", Usage: "push a signed document unchanged", ArgsUsage: "[FILE]", Action: s.push,
				Description: "FILE is - or missing for the standard input. Nothing is checked here: the explorer answers.\n\n" +
					"Examples:\n  croft reservation push r.json\n  croft reservation sign … | croft reservation push",
				Flags: []cli.Flag{&cli.StringFlag{Name: "to", Usage: "the `NODE` to push to (default: the document's node_id)"}},
			},
			{
				Name: "get", Usage: "print a reservation with its result, as the explorer shows it", ArgsUsage: "ID", Action: s.get,
				Description: "Prints JSON whatever -o says.\n\nExamples:\n  croft reservation get 7-1 | croft reservation verify",
			},
			{
				Name: "verify", Usage: "check a document's signatures, and those of its result", ArgsUsage: "[FILE]", Action: s.verify,
				Description: "FILE is - or missing for the standard input. Checks the user's signature, the deletion's and renewal's, and the node's signature of the result. " +
					"Ends with exit code 1 and the reason when one doesn't hold.\n\nExamples:\n  croft reservation verify r.json\n  croft reservation get 7-1 | croft reservation verify -o json",
			},
		},
	}
}

// input reads a document from the file that the argument names.
func (s *commands) input(c *cli.Context) ([]byte, error) {
	args, err := shell.Arguments(c, 0, 1, "one FILE at most")
	if err != nil {
		return nil, err
	}
	name := "-"
	if len(args) == 1 {
		name = args[0]
	}
	return s.readDocument(name)
}

func (s *commands) readDocument(name string) ([]byte, error) {
	in := s.Env.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, errors.Wrap(err, "cannot read document")
		}
		defer f.Close()
		in = f
	}
	content, err := io.ReadAll(io.LimitReader(in, maxDocument+1))
	if err != nil {
		return nil, errors.Wrap(err, "cannot read document")
	}
	if len(content) > maxDocument {
		return nil, errors.Errorf("cannot read document: it has more than %d bytes, which are allowed", maxDocument)
	}
	return content, nil
}

func (s *commands) push(c *cli.Context) error {
	content, err := s.input(c)
	if err != nil {
		return err
	}
	to := c.String("to")
	if to == "" {
		var document struct {
			NodeID string `json:"node_id"`
		}
		if err := json.Unmarshal(content, &document); err != nil || document.NodeID == "" {
			return errors.New("cannot tell from the document which node it is for: name one with --to")
		}
		to = document.NodeID
	}
	client, err := s.Client(c, false)
	if err != nil {
		return err
	}
	id, err := client.ReserveRaw(c.Context, to, content)
	if err != nil {
		return err
	}
	s.sayIfOffline(c, client, to)
	return s.Answer(c, map[string]string{"id": id, "node": to}, render.Rows{Head: []string{"ID", "NODE"}, Rows: [][]string{{id, to}}})
}

func (s *commands) sayIfOffline(c *cli.Context, client *explorer.Client, nodeID string) {
	if n, err := client.Node(c.Context, nodeID); err == nil && !n.Online {
		s.Say("node %s is offline (last seen: %s); it picks this up when it is back", nodeID, lifetime.Ago(n.Updated, s.Env.Now()))
	}
}

func (s *commands) get(c *cli.Context) error {
	args, err := shell.Arguments(c, 1, 1, "one ID")
	if err != nil {
		return err
	}
	id, err := workload.ParseID(args[0])
	if err != nil {
		return shell.Usage(err)
	}
	client, err := s.Client(c, false)
	if err != nil {
		return err
	}
	shown, err := client.Get(c.Context, id.String())
	if err != nil {
		return err
	}
	out, err := workload.EncodeShown(&shown.Reservation, shown.Result)
	if err != nil {
		return err
	}
	_, err = s.Env.Stdout.Write(append(out, '\n'))
	return err
}
