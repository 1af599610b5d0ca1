// Command server runs in containers of tests and the demo: a small HTTP server that reports its
// identity and environment, and carries out requests. It is no part of croft.
//
//	GET  /            its host name
//	GET  /env         its environment, a line each; /id: UID, GID, groups, PID
//	GET  /list?path=  the names in a folder; /read?path=: a file
//	PUT  /write?path= writes the body to a file
//	POST /say?to=stdout|stderr prints the body there
//	POST /exit?code=N ends with that code, after it has answered
//	GET  /get?url=    gets another one's answer
//
// "server -listen :8080" is the default; "-say TEXT" prints TEXT at the start,
// "-count PAUSE" prints "line 1", "line 2" and so on, with pauses.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	listen := flag.String("listen", ":8080", "where it listens")
	say := flag.String("say", "", "what it prints at the start")
	pause := flag.Duration("count", 0, "the pause between numbered lines, 0 for none")
	flag.Parse()
	if *say != "" {
		fmt.Println(*say)
	}
	l, err := net.Listen("tcp", *listen) //nolint:noctx // there is nothing to cancel
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	server := &http.Server{Handler: routes(), ReadHeaderTimeout: time.Minute}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		fmt.Printf("stopping: %s\n", <-asked)
		_ = server.Shutdown(context.Background())
	}()
	fmt.Printf("listening on %s\n", l.Addr())
	if *pause > 0 {
		go count(*pause)
	}
	if err := server.Serve(l); err != http.ErrServerClosed {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func count(pause time.Duration) {
	n := 0
	for range time.Tick(pause) {
		n++
		fmt.Printf("line %d\n", n)
	}
}

func routes() http.Handler {
	mux := http.NewServeMux()
	answer := func(pattern string, f func(r *http.Request) (string, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			text, err := f(r)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			_, _ = io.WriteString(w, text)
		})
	}
	answer("GET /{$}", func(*http.Request) (string, error) {
		host, err := os.Hostname()
		return host + "\n", err
	})
	answer("GET /env", func(*http.Request) (string, error) { return strings.Join(os.Environ(), "\n") + "\n", nil })
	answer("GET /id", func(*http.Request) (string, error) {
		groups, err := os.Getgroups()
		dir, _ := os.Getwd()
		return fmt.Sprintf("uid=%d gid=%d groups=%v pid=%d dir=%s\n", os.Getuid(), os.Getgid(), groups, os.Getpid(), dir), err
	})
	answer("GET /list", list)
	answer("GET /read", func(r *http.Request) (string, error) {
		b, err := os.ReadFile(r.FormValue("path"))
		return string(b), err
	})
	answer("PUT /write", func(r *http.Request) (string, error) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return "", err
		}
		return "", os.WriteFile(r.URL.Query().Get("path"), b, 0o644)
	})
	answer("POST /say", func(r *http.Request) (string, error) {
		out := os.Stdout
		if r.URL.Query().Get("to") == "stderr" {
			out = os.Stderr
		}
		_, err := io.Copy(out, r.Body)
		return "", err
	})
	answer("GET /get", get)
	mux.HandleFunc("POST /exit", exit)
	return mux
}

func list(r *http.Request) (string, error) {
	entries, err := os.ReadDir(r.FormValue("path"))
	var out strings.Builder
	for _, e := range entries {
		out.WriteString(e.Name() + "\n")
	}
	return out.String(), err
}

func get(r *http.Request) (string, error) {
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.FormValue("url"), nil)
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	return string(b), err
}

func exit(w http.ResponseWriter, r *http.Request) {
	code, err := strconv.Atoi(r.URL.Query().Get("code"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	os.Exit(code)
}
