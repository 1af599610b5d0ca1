package inspect

import (
	"encoding/json"
	"fmt"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/debugsocket"
	"github.com/croft-edge/croft/cmd/croft/internal/render"
	"github.com/croft-edge/croft/pkg/stategraph"
	"github.com/croft-edge/croft/pkg/yamljson"
)

// The debug socket's flag, its environment variable and its default.
const (
	flagDebugSocket    = "debug-socket"
	envDebugSocket     = "CROFT_DEBUG_SOCKET"
	defaultDebugSocket = "/run/croft/debug.sock"
)

func debugFlag() cli.Flag {
	return &cli.StringFlag{Name: flagDebugSocket, Usage: "the node's debug socket (" + envDebugSocket + "; default " + defaultDebugSocket + ")", TakesFile: true}
}

// Dump is `croft dump`.
func Dump(sh *shell.Shell) *cli.Command {
	s := commands{sh}
	return &cli.Command{
		Name: "dump", Category: "on a node", Usage: "print everything that a node knows at this moment", ArgsUsage: "[NAME]", Action: s.dump,
		Description: "Reads the debug socket of the node on this machine, as root. The answer is YAML, or JSON with -o json. NAME is a\n" +
			"section, such as goroutines or resources, or a type of resource; a name that the node doesn't know is empty.\n\n" +
			"Examples:\n  croft dump > node.yaml\n  croft dump goroutines\n  croft dump workload",
		Flags: []cli.Flag{debugFlag()},
	}
}

// read reads a part of the dump, or all of it for an empty name.
func (s commands) read(c *cli.Context, name string) ([]byte, error) {
	return debugsocket.Read(c.Context, s.path(c, flagDebugSocket, envDebugSocket, defaultDebugSocket), name)
}

func (s commands) dump(c *cli.Context) error {
	if _, err := shell.Arguments(c, 0, 1, "at most one NAME"); err != nil {
		return err
	}
	format, err := s.Output(c)
	if err != nil {
		return err
	}
	text, err := s.read(c, c.Args().First())
	if err != nil {
		return err
	}
	if format == render.JSON {
		value, err := yamljson.ToJSON(text)
		if err != nil {
			return err
		}
		return render.Write(s.Env.Stdout, format, value, render.Rows{})
	}
	_, err = s.Env.Stdout.Write(text)
	return errors.Wrap(err, "cannot write the dump")
}

// Graph is `croft graph`.
func Graph(sh *shell.Shell) *cli.Command {
	s := commands{sh}
	return &cli.Command{
		Name: "graph", Category: "on a node", Usage: "draw a node's controllers and what they read and write", Action: s.graph,
		Description: "Prints a graph in Graphviz' language, or its edges with -o json or yaml.\n\n" +
			"Examples:\n  croft graph | dot -Tsvg > graph.svg\n  croft graph -o yaml",
		Flags: []cli.Flag{debugFlag()},
	}
}

func (s commands) graph(c *cli.Context) error {
	if _, err := shell.Arguments(c, 0, 0, "no argument"); err != nil {
		return err
	}
	format, err := s.Output(c)
	if err != nil {
		return err
	}
	text, err := s.read(c, "graph")
	if err != nil {
		return err
	}
	graph, err := graphOf(text)
	if err != nil {
		return err
	}
	if format != render.Table {
		return render.Write(s.Env.Stdout, format, graph, render.Rows{})
	}
	_, err = fmt.Fprint(s.Env.Stdout, graph.DOT())
	return errors.Wrap(err, "cannot write the graph")
}

// graphOf reads the section graph of a dump.
func graphOf(text []byte) (stategraph.Graph, error) {
	raw, err := yamljson.ToJSON(text)
	if err != nil {
		return stategraph.Graph{}, errors.Wrap(err, "cannot read the node's graph")
	}
	var section struct {
		Graph *struct {
			stategraph.Graph
			Error string `json:"error"`
		} `json:"graph"`
	}
	if err := json.Unmarshal(raw, &section); err != nil {
		return stategraph.Graph{}, errors.Wrap(err, "cannot read the node's graph")
	}
	switch {
	case section.Graph == nil:
		return stategraph.Graph{}, errors.New("cannot read the node's graph: it gives none")
	case section.Graph.Error != "":
		return stategraph.Graph{}, errors.Errorf("cannot read the node's graph: %s", section.Graph.Error)
	}
	return section.Graph.Graph, nil
}
