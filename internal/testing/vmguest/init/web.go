package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/croft-edge/croft/internal/guest"
	"github.com/croft-edge/croft/internal/testing/vmguest/report"
	"github.com/croft-edge/croft/pkg/nocloud"
)

// mostBytes is the longest body and the longest read of a disk.
const mostBytes = 16 << 20

// serve answers HTTP on port 80; see vmguest for the requests.
func (g *guestMachine) serve() error {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", ":80")
	if err != nil {
		return err
	}
	g.ready = guest.UptimeSeconds()
	os.Stdout.WriteString(nocloud.Report + nocloud.Ready + "\n")
	say("ready %s %s", guest.ReadText("/proc/sys/kernel/hostname"), g.address())
	server := &http.Server{Handler: g.unlessHung(g.mux()), ReadHeaderTimeout: 30 * time.Second}
	return server.Serve(listener)
}

// address is the first address that the config disk gave.
func (g *guestMachine) address() string {
	for _, n := range g.config.config.Interfaces {
		for _, p := range n.Addresses {
			return p.Addr().String()
		}
	}
	return "without-address"
}

func (g *guestMachine) mux() *http.ServeMux {
	mux := http.NewServeMux()
	for pattern, answer := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /{$}":           func(w http.ResponseWriter, _ *http.Request) error { return answerName(w) },
		"GET /boot":          g.answerBoot,
		"GET /disk":          g.readDisk,
		"PUT /disk":          g.writeDisk,
		"GET /disk/size":     g.answerSize,
		"POST /discard":      g.discard,
		"POST /send":         send,
		"GET /fetch":         fetch,
		"POST /crash":        crash,
		"POST /hang":         g.hang,
		"POST /ignore-power": g.ignorePower,
		"POST /console":      writeConsole,
		"POST /eat":          g.eat,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := answer(w, r); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		})
	}
	return mux
}

// unlessHung leaves requests to a hung guest without an answer.
func (g *guestMachine) unlessHung(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.hung.Load() {
			select {}
		}
		h.ServeHTTP(w, r)
	})
}

// number is a number of the query; missing if it isn't there.
func number(r *http.Request, name string, missing int64) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return missing, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("cannot read %s %q: it must be a number from 0", name, text)
	}
	return n, nil
}

func answerName(w io.Writer) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, name)
	return err
}

func (g *guestMachine) answerBoot(w http.ResponseWriter, _ *http.Request) error {
	found, err := interfaces()
	if err != nil {
		return err
	}
	boot := report.Boot{
		Hostname: guest.ReadText("/proc/sys/kernel/hostname"), Interfaces: found, CommandLine: guest.ReadText("/proc/cmdline"),
		UptimeSeconds: guest.UptimeSeconds(), ReadySeconds: g.ready, MemoryMiB: memoryMiB(), CPUs: runtime.NumCPU(),
		Boots: g.disks.boots, ConfigFiles: g.config.sums(), Disks: g.disks.all,
	}
	if g.config.err != nil {
		boot.ConfigError = g.config.err.Error()
	}
	if len(g.config.config.UserData) > 0 {
		boot.UserDataSHA256 = sum(g.config.config.UserData)
	}
	return json.NewEncoder(w).Encode(boot)
}

func (g *guestMachine) readDisk(w http.ResponseWriter, r *http.Request) error {
	offset, err := number(r, "offset", 0)
	if err != nil {
		return err
	}
	length, err := number(r, "size", 512)
	if err != nil {
		return err
	}
	if length > mostBytes {
		return fmt.Errorf("cannot read %d bytes: at most %d", length, mostBytes)
	}
	b := make([]byte, length)
	if err := g.disks.transfer(b, offset, false); err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

func (g *guestMachine) writeDisk(_ http.ResponseWriter, r *http.Request) error {
	offset, err := number(r, "offset", 0)
	if err != nil {
		return err
	}
	b, err := io.ReadAll(io.LimitReader(r.Body, mostBytes))
	if err != nil {
		return err
	}
	return g.disks.transfer(b, offset, true)
}

func (g *guestMachine) answerSize(w http.ResponseWriter, _ *http.Request) error {
	_, err := fmt.Fprint(w, g.disks.size())
	return err
}

func (g *guestMachine) discard(_ http.ResponseWriter, r *http.Request) error {
	offset, err := number(r, "offset", 0)
	if err != nil {
		return err
	}
	size, err := number(r, "size", g.disks.size()-offset)
	if err != nil {
		return err
	}
	return g.disks.discard(offset, size)
}

// fetch asks another server, from the guest's network.
func fetch(w http.ResponseWriter, r *http.Request) error {
	ask, err := http.NewRequestWithContext(r.Context(), http.MethodGet, r.URL.Query().Get("url"), nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(ask)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	w.WriteHeader(answer.StatusCode)
	_, err = io.Copy(w, answer.Body)
	return err
}

func writeConsole(_ http.ResponseWriter, r *http.Request) error {
	_, err := os.Stdout.WriteString(r.URL.Query().Get("text") + "\n")
	return err
}

func (g *guestMachine) ignorePower(http.ResponseWriter, *http.Request) error {
	g.deaf.Store(true)
	return nil
}

// eat uses memory, each page of it, until the machine ends.
func (g *guestMachine) eat(_ http.ResponseWriter, r *http.Request) error {
	mib, err := number(r, "mib", 1)
	if err != nil {
		return err
	}
	if mib > 1<<20 {
		return errors.New("cannot eat so much: at most 1048576 MiB")
	}
	for range mib {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += os.Getpagesize() {
			b[i] = byte(i>>12) | 1
		}
		g.eaten = append(g.eaten, b)
	}
	return nil
}
