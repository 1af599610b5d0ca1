package machine

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"time"
)

// command gives QEMU a command and waits until it is done.
func (m *Machine) command(name string, arguments any) error {
	const limit = 20 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", m.path("qmp", ""))
	if err != nil {
		return fmt.Errorf("cannot speak to QEMU: %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	in, out := json.NewDecoder(conn), json.NewEncoder(conn)
	var greeting map[string]json.RawMessage
	if err := in.Decode(&greeting); err != nil || greeting["QMP"] == nil {
		return fmt.Errorf("cannot speak to QEMU: it greets with %v: %w", greeting, err)
	}
	for _, c := range []struct {
		Execute   string `json:"execute"`
		Arguments any    `json:"arguments,omitempty"`
	}{{"qmp_capabilities", nil}, {name, arguments}} {
		if err := out.Encode(c); err != nil {
			return err
		}
		if err := answer(in); err != nil {
			return fmt.Errorf("cannot have QEMU do %s: %w", c.Execute, err)
		}
	}
	return nil
}

// answer reads QEMU's answer; events come between.
func answer(in *json.Decoder) error {
	for {
		var got struct {
			Return json.RawMessage
			Error  *struct{ Desc string }
		}
		if err := in.Decode(&got); err != nil {
			return err
		}
		if got.Error != nil {
			return fmt.Errorf("QEMU answers %q", got.Error.Desc)
		}
		if got.Return != nil {
			return nil
		}
	}
}
