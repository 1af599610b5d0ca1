package main

import (
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	answers := map[string]func(args []string) (any, error){
		"alive":    alive,
		"burn":     burn,
		"calls":    calls,
		"fork":     fork,
		"hog":      hog,
		"ioctls":   ioctls,
		"listen":   listen,
		"mounts":   mounts,
		"names":    names,
		"open":     open,
		"ping":     ping,
		"queue":    queue,
		"reflinks": reflinks,
		"rlimits":  rlimits,
		"start":    start,
		"status":   status,
		"trace":    trace,
		"wait":     wait,
		"write":    write,
	}
	if len(os.Args) < 2 || answers[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "probe: no such question")
		os.Exit(2)
	}
	answer, err := answers[os.Args[1]](os.Args[2:])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(answer)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}
