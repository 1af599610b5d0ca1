package workload

import "github.com/kballard/go-shellquote"

// SplitEntrypoint splits a container's entry point into words as a shell
// would: at spaces, but for what is quoted or behind a backslash. Nothing else
// of a shell is done: no variables, patterns or redirections. An entry point of
// nothing but spaces is none: nil. The error is a FieldError of data.entrypoint.
func SplitEntrypoint(entrypoint string) ([]string, error) {
	const field = "data.entrypoint"
	args, err := shellquote.Split(entrypoint)
	switch {
	case err != nil:
		return nil, refuse(field, entrypoint, "a command whose quotes are all closed, and that doesn't end in a backslash")
	case len(args) == 0:
		return nil, nil
	case args[0] == "":
		return nil, refuse(field, entrypoint, "a command whose first word isn't empty")
	}
	return args, nil
}
