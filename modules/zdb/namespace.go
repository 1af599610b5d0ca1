package zdb

import (
	"context"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// info asks for a namespace. NotExist when there is none.
func (a admin) info(r record, name string) (node.ZDBNamespace, error) {
	reply, err := a.do("NSINFO", name)
	if err != nil {
		return node.ZDBNamespace{}, err
	}
	out, err := readInfo(r, name, reply)
	if err == nil && r.Data != "" {
		out.Hash, err = labelOf(r.Data, name)
	}
	return out, err
}

// readInfo reads the reply to NSINFO.
func readInfo(r record, name string, reply any) (node.ZDBNamespace, error) {
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
	out := node.ZDBNamespace{Container: r.Container, Name: name, Public: fields["public"] == "yes", Protected: fields["password"] == "yes"}
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

// names are the namespaces that can be a reservation's.
func (a admin) names() ([]string, error) {
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
		if checkNamespace(name) == nil {
			out = append(out, name)
		}
	}
	return out, nil
}

// create makes a namespace, or sets what differs. What it was told in one go is
// done in one: nobody finds it without its password. The label comes first, so
// that there never is one without.
func (a admin) create(r record, s node.ZDBNamespaceSpec) (node.ZDBNamespace, error) {
	have, err := a.info(r, s.Name)
	made := errors.Is(err, node.NotExist)
	if err != nil && !made {
		return have, err
	}
	if !made {
		if err := claimOf(s).Check("make namespace "+s.Name, have.Hash); err != nil {
			return have, err
		}
		if have.Mode != r.Mode {
			return have, node.Errorf(node.Exist, "there is one of mode %s, must be %s", have.Mode, r.Mode)
		}
	}
	if made || have.Hash != s.Hash {
		if err := setLabel(r.Data, s.Name, s.Hash); err != nil {
			return have, err
		}
	}
	if err := a.change(s.Name, changes(have, s, made), made); err != nil {
		return have, err
	}
	have, err = a.info(r, s.Name)
	if err == nil && (have.Size != s.Size || have.Public != s.Public || have.Protected != (s.Password != "") || have.Mode != r.Mode) {
		return have, node.Errorf(node.Internal, "it is %+v, though the zdb took everything", have)
	}
	return have, err
}

func claimOf(s node.ZDBNamespaceSpec) node.Claim {
	return node.Claim{Hash: s.Hash, AdoptUnlabelled: s.AdoptUnlabelled}
}

// remove removes a namespace with its data and its label.
func (a admin) remove(r record, name string) error {
	_, err := a.do("NSDEL", name)
	if err != nil && !errors.Is(err, node.NotExist) {
		return err
	}
	if dropped := dropLabel(r.Data, name); dropped != nil {
		return dropped
	}
	return err
}

// change runs the commands for a namespace. One that was made by the first of them
// and can't be what was asked for is removed: it may be without its password.
func (a admin) change(name string, commands []command, made bool) error {
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

// changes are the commands that make of what is there what is asked for. Whether
// the password is the same can't be seen.
func changes(have node.ZDBNamespace, s node.ZDBNamespaceSpec, made bool) []command {
	var out []command
	if made {
		out = append(out, newCommand("NSNEW", s.Name))
	}
	switch {
	case s.Password != "":
		out = append(out, command{name: "NSSET", arguments: []string{s.Name, "password"}, secret: s.Password})
	case have.Protected:
		out = append(out, newCommand("NSSET", s.Name, "password", noPassword))
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

// list returns all namespaces but the default one.
func (a admin) list(r record) ([]node.ZDBNamespace, error) {
	names, err := a.names()
	if err != nil {
		return nil, err
	}
	out := make([]node.ZDBNamespace, 0, len(names))
	for _, name := range names {
		one, err := a.info(r, name)
		switch {
		case errors.Is(err, node.NotExist): // removed meanwhile
		case errors.Is(err, node.Transient):
			return nil, err
		case err != nil:
			// The zdb can't say more of it, as it is damaged: it is there all the same.
			hash, err := labelOf(r.Data, name)
			if err != nil {
				return nil, err
			}
			out = append(out, node.ZDBNamespace{Container: r.Container, Name: name, Hash: hash})
		default:
			out = append(out, one)
		}
	}
	return out, nil
}

// mode is that of the zdb; that of the spec when its default namespace is damaged.
func mode(ctx context.Context, s node.ZDBServerSpec) (workload.ZDBMode, error) {
	out := s.Mode
	err := ask(ctx, s.Data, func(a admin) error {
		have, err := a.info(record{}, defaultNamespace)
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
