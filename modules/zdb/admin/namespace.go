package admin

import (
	"context"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/modules/zdb/check"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// Info describes a namespace. NotExist when there is none.
func (a Client) Info(at node.ZDBServerSpec, name string) (node.ZDBNamespace, error) {
	reply, err := a.do("NSINFO", name)
	if err != nil {
		return node.ZDBNamespace{}, err
	}
	out, err := readInfo(at, name, reply)
	if err == nil && at.Data != "" {
		out.Hash, err = labelOf(at.Data, name)
	}
	return out, err
}

// readInfo reads the reply to NSINFO.
func readInfo(at node.ZDBServerSpec, name string, reply any) (node.ZDBNamespace, error) {
	text, err := redis.String(reply, nil)
	if err != nil {
		return node.ZDBNamespace{}, node.Errorf(node.Transient, "its NSINFO isn't one: %w", err)
	}
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			fields[key] = value
		}
	}
	out := node.ZDBNamespace{Container: at.Container, Name: name, Public: fields["public"] == "yes", Protected: fields["password"] == "yes"}
	switch fields["mode"] {
	case "userkey":
		out.Mode = workload.ZDBUser
	case "sequential":
		out.Mode = workload.ZDBSeq
	default:
		err = errors.Errorf("mode is %.80q", fields["mode"])
	}
	if fields["name"] != name {
		err = errors.Errorf("name is %.80q", fields["name"])
	}
	for key, to := range map[string]*uint64{"data_limits_bytes": &out.Size, "data_size_bytes": &out.Used} {
		n, parseErr := strconv.ParseUint(fields[key], 10, 64)
		if parseErr != nil {
			err = errors.Errorf("%s is %.80q", key, fields[key])
		}
		*to = n
	}
	if err != nil {
		return node.ZDBNamespace{}, node.Errorf(node.Transient, "its NSINFO of %s isn't one: %w", name, err)
	}
	out.Disk, _ = strconv.ParseUint(fields["disk_size_bytes"], 10, 64) // croft's own has it, on this socket
	return out, nil
}

// Names lists the namespaces that can be a reservation's.
func (a Client) Names() ([]string, error) {
	reply, err := a.do("NSLIST")
	if err != nil {
		return nil, err
	}
	all, err := redis.Strings(reply, nil)
	if err != nil {
		return nil, node.Errorf(node.Transient, "its NSLIST isn't one: %w", err)
	}
	out := make([]string, 0, len(all))
	for _, name := range all {
		if check.Name(name) == nil {
			out = append(out, name)
		}
	}
	return out, nil
}

// Create makes a namespace, or sets the properties that differ. All commands are sent
// at once, so that nobody finds the namespace without its password. The label comes
// first, so that there never is a namespace without.
func (a Client) Create(at node.ZDBServerSpec, s node.ZDBNamespaceSpec) (node.ZDBNamespace, error) {
	have, err := a.Info(at, s.Name)
	made := errors.Is(err, node.NotExist)
	if err != nil && !made {
		return have, err
	}
	if !made {
		if err := check.Claim(s).Check("make namespace "+s.Name, have.Hash); err != nil {
			return have, err
		}
		if have.Mode != at.Mode {
			return have, node.Errorf(node.Exist, "there is one of mode %s, must be %s", have.Mode, at.Mode)
		}
	}
	if made || have.Hash != s.Hash {
		if err := setLabel(at.Data, s.Name, s.Hash); err != nil {
			return have, err
		}
	}
	if err := a.change(s.Name, changes(have, s, made), made); err != nil {
		return have, err
	}
	have, err = a.Info(at, s.Name)
	if err == nil && (have.Size != s.Size || have.Public != s.Public || have.Protected != (s.Password != "") || have.Mode != at.Mode) {
		return have, node.Errorf(node.Internal, "it is %+v, though the zdb took everything", have)
	}
	return have, err
}

// Remove removes a namespace with its data and its label.
func (a Client) Remove(at node.ZDBServerSpec, name string) error {
	_, err := a.do("NSDEL", name)
	if err != nil && !errors.Is(err, node.NotExist) {
		return err
	}
	if dropped := dropLabel(at.Data, name); dropped != nil {
		return dropped
	}
	return err
}

// change runs the commands for a namespace. If the first one made it and another
// failed, it is removed: it may be without its password.
func (a Client) change(name string, commands []command, made bool) error {
	errs := a.run(commands)
	if made && errors.Is(errs[0], node.Exist) {
		errs[0], made = nil, false // another call was faster
	}
	for _, err := range errs {
		if err == nil {
			continue
		}
		if made && errs[0] == nil {
			_, _ = a.do("NSDEL", name)
		}
		return err
	}
	return nil
}

// changes are the commands that turn the present namespace into the wanted one. Nobody can
// see whether the password is the same.
func changes(have node.ZDBNamespace, s node.ZDBNamespaceSpec, made bool) []command {
	var out []command
	if made {
		out = append(out, newCommand("NSNEW", s.Name))
	}
	switch {
	case s.Password != "":
		out = append(out, command{name: "NSSET", arguments: []string{s.Name, "password"}, secret: s.Password})
	case have.Protected:
		out = append(out, newCommand("NSSET", s.Name, "password", check.NoPassword))
	}
	if made || have.Public != s.Public {
		public := "0"
		if s.Public {
			public = "1"
		}
		out = append(out, newCommand("NSSET", s.Name, "public", public))
	}
	if made || have.Size != s.Size {
		out = append(out, newCommand("NSSET", s.Name, "maxsize", strconv.FormatUint(s.Size, 10)))
	}
	return out
}

// List lists all namespaces but the default one.
func (a Client) List(at node.ZDBServerSpec) ([]node.ZDBNamespace, error) {
	names, err := a.Names()
	if err != nil {
		return nil, err
	}
	out := make([]node.ZDBNamespace, 0, len(names))
	for _, name := range names {
		one, err := a.Info(at, name)
		switch {
		case errors.Is(err, node.NotExist): // removed meanwhile
		case errors.Is(err, node.Transient):
			return nil, err
		case err != nil:
			// The zdb can't say more of it, as it is damaged: it is there all the same.
			hash, err := labelOf(at.Data, name)
			if err != nil {
				return nil, err
			}
			out = append(out, node.ZDBNamespace{Container: at.Container, Name: name, Hash: hash})
		default:
			out = append(out, one)
		}
	}
	return out, nil
}

// Mode is the zdb's mode; the spec's when its default namespace is damaged.
func Mode(ctx context.Context, s node.ZDBServerSpec) (workload.ZDBMode, error) {
	out := s.Mode
	err := Ask(ctx, s.Data, func(a Client) error {
		have, err := a.Info(node.ZDBServerSpec{}, check.DefaultNamespace)
		switch {
		case err == nil:
			out = have.Mode
		case errors.Is(err, node.Internal):
			return nil
		}
		return err
	})
	return out, err
}
