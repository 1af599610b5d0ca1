package machine

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"time"
)

// command gives QEMU a command, waits until it is done, and returns its answer.
func (m *Machine) command(name string, arguments any) (json.RawMessage, error) {
	const limit = 20 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", m.path("qmp", ""))
	if err != nil {
		return nil, fmt.Errorf("cannot speak to QEMU: %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return nil, err
	}
	in, out := json.NewDecoder(conn), json.NewEncoder(conn)
	var greeting map[string]json.RawMessage
	if err := in.Decode(&greeting); err != nil || greeting["QMP"] == nil {
		return nil, fmt.Errorf("cannot speak to QEMU: it greets with %v: %w", greeting, err)
	}
	var got json.RawMessage
	for _, c := range []struct {
		Execute   string `json:"execute"`
		Arguments any    `json:"arguments,omitempty"`
	}{{"qmp_capabilities", nil}, {name, arguments}} {
		if err := out.Encode(c); err != nil {
			return nil, err
		}
		var err error
		if got, err = answer(in); err != nil {
			return nil, fmt.Errorf("cannot have QEMU do %s: %w", c.Execute, err)
		}
	}
	return got, nil
}

// ask gives QEMU's monitor for people a command, and returns what it prints.
func (m *Machine) ask(command string) (text string, err error) {
	got, err := m.command("human-monitor-command", map[string]string{"command-line": command})
	if err != nil {
		return "", err
	}
	return text, json.Unmarshal(got, &text)
}

// answer reads QEMU's answer; events come between.
func answer(in *json.Decoder) (json.RawMessage, error) {
	for {
		var got struct {
			Return json.RawMessage
			Error  *struct{ Desc string }
		}
		if err := in.Decode(&got); err != nil {
			return nil, err
		}
		if got.Error != nil {
			return nil, fmt.Errorf("QEMU answers %q", got.Error.Desc)
		}
		if got.Return != nil {
			return got.Return, nil
		}
	}
}
