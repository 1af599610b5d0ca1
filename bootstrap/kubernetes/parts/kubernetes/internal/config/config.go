// Package config owns the configuration file of kube-server: its form, its checks, and the flags that kube-server
// itself adds to those of the components. It does not use Kubernetes' or etcd's packages.
package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Config is what kube-server runs.
type Config struct {
	Etcd Etcd `json:"etcd"`
	// APIServer, ControllerManager and Scheduler are the command line flags of the components, each "--name=value" or
	// "--name". Flags about logging are the API server's only: one process has one log.
	APIServer         []string `json:"apiserver"`
	ControllerManager []string `json:"controller_manager"`
	Scheduler         []string `json:"scheduler"`
}

// Etcd says where etcd keeps its files. Both are absolute paths without "..".
type Etcd struct {
	// Dir is the data folder.
	Dir string `json:"dir"`
	// SocketDir is the folder of the unix socket that the API server connects to. kube-server makes it with mode 0700:
	// etcd asks nobody for credentials, so only root may reach it.
	SocketDir string `json:"socket_dir"`
}

// maxSocketPath is the longest path of a unix socket in bytes: sun_path of unix(7) without its final zero.
const maxSocketPath = 107

// Socket is the path of etcd's socket.
func (e Etcd) Socket() string { return filepath.Join(e.SocketDir, "etcd.sock") }

// Read reads and checks the configuration file at path.
func Read(path string) (Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("cannot read the configuration: %w", err)
	}
	c, err := Decode(text)
	if err != nil {
		return Config{}, fmt.Errorf("configuration %s: %w", path, err)
	}
	return c, nil
}

// Decode decodes and checks a configuration. A member that kube-server does not know, a wrong type, and text behind
// the object are errors, which name the member.
func Decode(text []byte) (Config, error) {
	var c Config
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return Config{}, fmt.Errorf("cannot decode: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Config{}, errors.New("cannot decode: there is text behind the object")
	}
	return c, c.Validate()
}

// Validate reports the first member that kube-server cannot work with.
func (c Config) Validate() error {
	for _, p := range []struct{ member, path string }{{"etcd.dir", c.Etcd.Dir}, {"etcd.socket_dir", c.Etcd.SocketDir}} {
		switch {
		case p.path == "":
			return fmt.Errorf("%s is missing", p.member)
		case !filepath.IsAbs(p.path) || filepath.Clean(p.path) != p.path:
			return fmt.Errorf("%s is %q: want an absolute path without \"..\", doubled slashes, or a final one", p.member, p.path)
		}
	}
	if n := len(c.Etcd.Socket()); n > maxSocketPath {
		return fmt.Errorf("etcd.socket_dir is too long: the socket's path has %d bytes, at most %d are possible", n, maxSocketPath)
	}
	for _, f := range []struct {
		member string
		flags  []string
		ours   map[string]string
	}{
		{"apiserver", c.APIServer, map[string]string{"etcd-servers": "etcd's socket"}},
		{"controller_manager", c.ControllerManager, leaderElection()},
		{"scheduler", c.Scheduler, leaderElection()},
	} {
		if err := checkFlags(f.member, f.flags, f.ours); err != nil {
			return err
		}
	}
	_, err := c.ReadyURL()
	return err
}

func leaderElection() map[string]string {
	return map[string]string{"leader-elect": "false, as no second control plane runs"}
}

// checkFlags refuses what is not a flag, and flags that kube-server sets itself: ours has their names and values.
func checkFlags(member string, flags []string, ours map[string]string) error {
	if len(flags) == 0 {
		return fmt.Errorf("%s has no flags", member)
	}
	for i, flag := range flags {
		name, ok := flagName(flag)
		if !ok {
			return fmt.Errorf("%s[%d] is %q: want --name=value or --name", member, i, flag)
		}
		if value, set := ours[name]; set {
			return fmt.Errorf("%s[%d]: --%s cannot be given: kube-server sets it (%s)", member, i, name, value)
		}
	}
	return nil
}

// flagName is the name of the flag, without its dashes and its value. Kubernetes takes "_" for "-" in names.
func flagName(flag string) (string, bool) {
	rest, ok := strings.CutPrefix(flag, "--")
	name, _, _ := strings.Cut(rest, "=")
	if !ok || name == "" || strings.HasPrefix(name, "-") || strings.ContainsAny(name, " \t\n") {
		return "", false
	}
	return strings.ReplaceAll(name, "_", "-"), true
}
