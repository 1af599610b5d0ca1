package sshclient

import (
	"bytes"
	"context"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pkg/errors"
)

const (
	// mostErrorText is how many bytes of what ssh writes on its standard error are kept.
	mostErrorText = 16 << 10
	// killAfter is how long ssh has to end when it is told to.
	killAfter = 3 * time.Second
)

// Config says how a machine is reached.
type Config struct {
	// Program is the ssh program: a path, or a name in PATH.
	Program string
	User    string
	Address netip.Addr
	// Alias is the machine's name among known hosts: letters, digits and hyphens. The address isn't, because
	// different networks have machines of the same address.
	Alias string
	// Keys are the only ones that the machine may have, at least one.
	Keys []HostKey
	// Identity is the path of the file of the user's key; empty for those that ssh finds itself.
	Identity string
	// Jump is the host to go through, as in ssh -J; empty for what the user's own configuration says.
	Jump string
	// Batch is whether nobody can be asked for a passphrase.
	Batch bool
}

// Output runs a command on the machine by ssh, and returns what it writes on its standard output, at most so many bytes.
// Other errors than those of starting the program are of type *Failure, but the context's. ssh is ended with ctx; no
// file of the run stays behind.
func (c Config) Output(ctx context.Context, command string, most int) (_ []byte, err error) {
	program, err := exec.LookPath(c.Program)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot run %s, which must be OpenSSH's client", c.Program)
	}
	dir, err := os.MkdirTemp("", "croft-ssh-*")
	if err != nil {
		return nil, errors.Wrap(err, "cannot make a folder for ssh's known hosts")
	}
	defer func() {
		if gone := os.RemoveAll(dir); err == nil {
			err = errors.Wrap(gone, "cannot remove the folder of ssh's known hosts")
		}
	}()
	known, err := c.writeKnownHosts(dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stdout, stderr := &bounded{most: most, full: cancel}, &bounded{most: mostErrorText}
	ssh := exec.CommandContext(ctx, program, c.arguments(known, command)...)
	ssh.Stdout, ssh.Stderr = stdout, stderr
	ssh.Cancel = func() error { return ssh.Process.Signal(syscall.SIGTERM) }
	ssh.WaitDelay = killAfter
	runErr := ssh.Run()
	if err := c.failure(ctx, runErr, stdout, stderr.kept.String()); err != nil {
		return nil, err
	}
	return stdout.kept.Bytes(), nil
}

func (c Config) writeKnownHosts(dir string) (path string, err error) {
	var lines strings.Builder
	for _, k := range c.Keys {
		lines.WriteString(c.Alias + " " + k.String() + "\n")
	}
	path = filepath.Join(dir, "known_hosts")
	return path, errors.Wrap(os.WriteFile(path, []byte(lines.String()), 0o600), "cannot write ssh's known hosts")
}

// arguments are ssh's. What they set, the user's configuration can't set otherwise: ssh takes the first value.
func (c Config) arguments(known, command string) []string {
	out := []string{"-T", "-a", "-x"}
	set := func(options ...string) {
		for _, o := range options {
			out = append(out, "-o", o)
		}
	}
	// Only the given host keys are trusted: no other file's, no DNS server's, no machine's own next ones.
	set("StrictHostKeyChecking=yes", "UserKnownHostsFile="+quoted(known), "GlobalKnownHostsFile=/dev/null", "HostKeyAlias="+c.Alias,
		"UpdateHostKeys=no", "VerifyHostKeyDNS=no", "CheckHostIP=no")
	// A connection that is shared by address may be to a machine of another network.
	set("ControlMaster=no", "ControlPath=none")
	// The machine takes keys only: it is given no password, and asks for nothing on the terminal.
	set("PreferredAuthentications=publickey", "ClearAllForwardings=yes", "PermitLocalCommand=no", "RemoteCommand=none")
	set("ConnectTimeout=20", "ServerAliveInterval=15", "ServerAliveCountMax=3", "LogLevel=ERROR")
	if c.Batch {
		set("BatchMode=yes")
	}
	if c.Identity != "" {
		set("IdentitiesOnly=yes", "IdentityFile="+quoted(c.Identity))
	}
	if c.Jump != "" {
		set("ProxyJump=" + c.Jump)
	}
	return append(out, c.User+"@"+c.Address.String(), command)
}

// quoted is a path as the value of an option: ssh splits it at spaces, and replaces what begins with a percent sign.
func quoted(path string) string {
	return `"` + strings.ReplaceAll(path, "%", "%%") + `"`
}

// bounded keeps the first bytes that are written to it, and says so when there are more. It isn't a bytes.Buffer itself,
// whose ReadFrom knows no bound.
type bounded struct {
	kept bytes.Buffer
	most int
	// full is called when there are more bytes; nil to pass over them.
	full func()
	over bool
}

// Write implements io.Writer. It takes everything, so that the program isn't disturbed.
func (b *bounded) Write(p []byte) (int, error) {
	room := b.most - b.kept.Len()
	if len(p) <= room {
		return b.kept.Write(p)
	}
	b.over = true
	if b.full != nil {
		b.full()
	}
	if _, err := b.kept.Write(p[:room]); err != nil {
		return 0, err
	}
	return len(p), nil
}
