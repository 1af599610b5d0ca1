package clusters

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/command/workspace"
	"github.com/croft-edge/croft/cmd/croft/internal/kubeconfig"
	"github.com/croft-edge/croft/cmd/croft/internal/render"
	"github.com/croft-edge/croft/cmd/croft/internal/route"
	"github.com/croft-edge/croft/cmd/croft/internal/sshclient"
	"github.com/croft-edge/croft/pkg/nodeapi"
)

// remoteCommand prints the administrator's kubeconfig on a control plane: kubeadm's place for it, and croft's image's.
const remoteCommand = "cat /etc/kubernetes/admin.conf"

// commands are those of clusters.
type commands struct{ *shell.Shell }

// Kubeconfig is `croft kubeconfig`.
func Kubeconfig(sh *shell.Shell) *cli.Command {
	s := &commands{sh}
	return &cli.Command{
		Name: "kubeconfig", Category: "kubernetes", Usage: "fetch the kubeconfig of a Kubernetes control plane", ArgsUsage: "ID|NAME", Action: s.kubeconfig,
		Description: "Reads the control plane's administrator credentials by your ssh program, so this computer must be in the machine's network: `croft network add-access` makes a file for wg-quick. " +
			"The machine's ssh host keys are read from its console, at the node; no other machine is believed.\n\n" +
			"Cluster, user and context are named croft-ID. Without --out and --merge the kubeconfig is printed.\n\n" +
			"Examples:\n  croft kubeconfig master --merge --use\n  croft kubeconfig 7-1 --out cluster.yaml --identity ~/.ssh/id_ed25519",
		Flags: workspace.NodeFlags(
			&cli.StringFlag{Name: "out", Usage: "write it to `FILE`, which only you may read", TakesFile: true},
			&cli.BoolFlag{Name: "merge", Usage: "put it into the file that KUBECONFIG names, else ~/.kube/config"},
			&cli.BoolFlag{Name: "use", Usage: "with --merge: make its context the current one"},
			&cli.StringFlag{Name: "identity", Aliases: []string{"i"}, Usage: "the `FILE` of your ssh key; default: those that ssh finds", TakesFile: true},
			&cli.StringFlag{Name: "jump", Usage: "go through this `HOST`, as ssh -J does"},
			&cli.StringSliceFlag{Name: "host-key", Usage: "the machine has this ssh host `KEY`, as in 'ssh-ed25519 AAAA…'; its console isn't read"},
			&cli.StringFlag{Name: "ssh", Usage: "the ssh `PROGRAM`", Value: "ssh", TakesFile: true},
		),
		BashComplete: workspace.CompleteNames,
	}
}

func (s *commands) kubeconfig(c *cli.Context) error {
	args, err := shell.Arguments(c, 1, 1, "one ID or NAME")
	if err != nil {
		return err
	}
	to, err := s.destination(c)
	if err != nil {
		return err
	}
	client, err := s.client(c)
	if err != nil {
		return err
	}
	ctx, stop := hangup(c.Context)
	defer stop()
	router := workspace.Router(s.Shell, c)
	at, seen, err := workspace.Observe(s.Shell, c, router, args[0])
	if err != nil {
		return err
	}
	m, err := controlPlane(at, seen)
	if err != nil {
		return err
	}
	m.given = len(client.Keys) > 0
	if !m.given {
		if client.Keys, err = hostKeys(ctx, router, m); err != nil {
			return err
		}
	}
	admin, err := s.fetch(ctx, client, m)
	if err != nil {
		return err
	}
	return s.deliver(c, to, admin, m)
}

// hangup is ctx that also ends when the terminal is closed, unless such a signal is ignored.
func hangup(ctx context.Context) (context.Context, func()) {
	if signal.Ignored(syscall.SIGHUP) {
		return ctx, func() {}
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}

// client is what the flags say of ssh; the machine isn't known yet.
func (s *commands) client(c *cli.Context) (sshclient.Config, error) {
	out := sshclient.Config{Program: c.String("ssh"), User: "root", Jump: c.String("jump"), Batch: !s.Env.Terminal}
	for _, text := range c.StringSlice("host-key") {
		key, err := sshclient.ParseHostKey(text)
		if err != nil {
			return out, errors.WithMessage(shell.Usage(err), "--host-key")
		}
		out.Keys = append(out.Keys, key)
	}
	if file := c.String("identity"); file != "" {
		// ssh takes a public key too, whose private one an agent has.
		_, private := os.Stat(file)
		if _, public := os.Stat(file + ".pub"); private != nil && public != nil {
			return out, shell.Usage(errors.Wrap(private, "cannot use --identity"))
		}
		path, err := filepath.Abs(file)
		if err != nil {
			return out, errors.Wrap(err, "cannot use --identity")
		}
		out.Identity = path
	}
	return out, nil
}

// hostKeys reads the machine's host keys from its console.
func hostKeys(ctx context.Context, router *route.Router, m machine) ([]sshclient.HostKey, error) {
	conn, err := router.Dial(ctx, m.node)
	if err != nil {
		return nil, errors.WithMessagef(err, "cannot read the ssh host keys on the console of %s", m.label)
	}
	defer conn.Close()
	var console sshclient.Console
	err = conn.Logs(ctx, m.id, nodeapi.LogOptions{Tail: -1}, func(l nodeapi.LogLine) error {
		console.Add(l.Text)
		return nil
	})
	if err != nil {
		return nil, errors.WithMessagef(err, "cannot read the ssh host keys on the console of %s", m.label)
	}
	if len(console.Keys()) == 0 {
		return nil, errors.Errorf("cannot find the ssh host keys of %s on its console: it hasn't booted yet (see `croft status %s`), or the node keeps these lines no longer; "+
			"--host-key 'ssh-ed25519 AAAA…' gives a key instead", m.label, m.label)
	}
	return console.Keys(), nil
}

// fetch asks the machine.
func (s *commands) fetch(ctx context.Context, client sshclient.Config, m machine) (kubeconfig.Admin, error) {
	client.Address, client.Alias = m.address, m.name()
	if s.Env.Terminal {
		s.Say("asking root@%s by ssh", m.address)
	}
	text, err := client.Output(ctx, remoteCommand, kubeconfig.MaxSize)
	if err != nil {
		return kubeconfig.Admin{}, m.explain(err, client.Keys)
	}
	admin, err := kubeconfig.Read(text, m.address)
	return admin, errors.WithMessage(err, m.label)
}

// delivered is the answer when the kubeconfig went into a file.
type delivered struct {
	Context string `json:"context"`
	Server  string `json:"server"`
	File    string `json:"file"`
	// Current is whether the context is the file's current one now.
	Current bool `json:"current"`
}

// deliver prints the kubeconfig, or writes it to where the user wants it.
func (s *commands) deliver(c *cli.Context, to destination, admin kubeconfig.Admin, m machine) error {
	config := admin.Named(m.name())
	if to.path == "" {
		return render.Write(s.Env.Stdout, to.printed, config, render.Rows{})
	}
	if err := to.write(config); err != nil {
		return err
	}
	d := delivered{Context: m.name(), Server: admin.Server(), File: to.path, Current: to.use || !to.merge}
	return s.Answer(c, d, render.Rows{
		Head: []string{"CONTEXT", d.Context},
		Rows: [][]string{{"server", d.Server}, {"file", d.File}, {"current", render.YesNo(d.Current)}},
	})
}
