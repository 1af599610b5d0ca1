package imagetest

import (
	_ "embed" // for the server's source

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

//go:embed server/main.go
var serverSource string

// ServerPath is where Server puts its program, ServerPort where it listens.
const (
	ServerPath = "/bin/server"
	ServerPort = 8080
)

// Server is an image of a static HTTP server that answers with its host name
// and does what it is asked for: see the package server for its requests. args
// go to it.
func Server(args ...string) *Builder {
	return New().Program(ServerPath, serverSource).Dir("/tmp", 0o1777).Config(func(c *v1.Config) {
		c.Entrypoint = []string{ServerPath}
		c.Cmd = args
		c.Env = []string{"PATH=/bin"}
	})
}
