package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// status is this process's status file, ID maps, environment and working directory.
func status([]string) (any, error) {
	file, err := os.Open("/proc/self/status")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	out := map[string]string{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		out[name] = strings.Join(strings.Fields(value), " ")
	}
	for _, name := range []string{"uid_map", "gid_map", "oom_score_adj", "cgroup"} {
		text, err := os.ReadFile("/proc/self/" + name)
		if err != nil {
			return nil, err
		}
		out[name] = strings.Join(strings.Fields(string(text)), " ")
	}
	out["env"] = strings.Join(os.Environ(), "\n")
	out["cwd"], err = os.Getwd()
	return out, err
}

// mounts are the lines of mountinfo.
func mounts([]string) (any, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	return strings.Split(strings.TrimSpace(string(text)), "\n"), err
}

// names are the identifiers by which a container could recognize the machine: namespaces, host name,
// network interfaces, processes, devices and IPC objects.
func names([]string) (any, error) {
	out := map[string][]string{}
	for _, kind := range []string{"user", "net", "pid", "mnt", "ipc", "uts", "cgroup"} {
		name, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			return nil, err
		}
		out[kind] = []string{name}
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	out["hostname"] = []string{host}
	for key, dir := range map[string]string{"interfaces": "/sys/class/net", "processes": "/proc", "dev": "/dev", "queues": "/dev/mqueue", "shared": "/dev/shm"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if key != "processes" || strings.Trim(e.Name(), "0123456789") == "" {
				out[key] = append(out[key], e.Name())
			}
		}
	}
	segments, err := os.ReadFile("/proc/sysvipc/shm")
	out["segments"] = strings.Split(strings.TrimSpace(string(segments)), "\n")[1:]
	return out, err
}

// open opens files and returns the outcomes: "ok", or the error's name. Arguments: "r" or "w", then
// paths, whose last part may be a pattern.
func open(args []string) (any, error) {
	flags := unix.O_RDONLY
	if args[0] == "w" {
		flags = unix.O_WRONLY
	}
	out := map[string]string{}
	for _, pattern := range args[1:] {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		if len(paths) == 0 {
			paths = []string{pattern}
		}
		for _, path := range paths {
			out[path] = openOne(path, flags)
		}
	}
	return out, nil
}

// openOne also reads a byte: a masked file may be opened and is empty.
func openOne(path string, flags int) string {
	fd, err := unix.Open(path, flags|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nameOf(err)
	}
	defer unix.Close(fd)
	if flags != unix.O_RDONLY {
		return "ok"
	}
	n, err := unix.Read(fd, make([]byte, 1))
	switch {
	case err == unix.EISDIR:
		entries, err := os.ReadDir(path)
		if err == nil && len(entries) == 0 {
			return "empty"
		}
		return nameOf(err)
	case err == nil && n == 0:
		return "empty"
	}
	return nameOf(err)
}

// write tries to write files.
func write(args []string) (any, error) {
	out := map[string]string{}
	for _, path := range args {
		out[path] = nameOf(os.WriteFile(path, []byte("x"), 0o600))
	}
	return out, nil
}

// start runs another program and passes its output on.
func start(args []string) (any, error) {
	c := exec.CommandContext(context.Background(), args[0], args[1:]...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		return nil, err
	}
	os.Exit(0)
	return nil, nil
}

// rlimits are the soft and hard limits of this process.
func rlimits([]string) (any, error) {
	text, err := os.ReadFile("/proc/self/limits")
	return strings.Split(strings.TrimSpace(string(text)), "\n"), err
}

// nameOf is an error's name, "ok" for none.
func nameOf(err error) string {
	if err == nil {
		return "ok"
	}
	if errno, ok := asErrno(err); ok {
		return unix.ErrnoName(errno)
	}
	return err.Error()
}
