package command

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/render"
)

const bashCompletion = `# bash completion of croft: source <(croft completion bash)
_croft() {
  local cur words
  cur="${COMP_WORDS[COMP_CWORD]}"
  if [[ "$cur" == -* ]]; then
    words=$("${COMP_WORDS[@]:0:COMP_CWORD}" - --generate-bash-completion 2>/dev/null)
  else
    words=$("${COMP_WORDS[@]:0:COMP_CWORD}" --generate-bash-completion 2>/dev/null)
  fi
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o bashdefault -o default -F _croft croft
`

const zshCompletion = `#compdef croft
# zsh completion of croft: source <(croft completion zsh)
_croft() {
  local -a words_
  local cur="${words[-1]}"
  if [[ "$cur" == -* ]]; then
    words_=("${(@f)$("${words[@]:0:#words-1}" - --generate-bash-completion 2>/dev/null)}")
  else
    words_=("${(@f)$("${words[@]:0:#words-1}" --generate-bash-completion 2>/dev/null)}")
  fi
  if [[ -n "${words_[1]}" ]]; then
    compadd -- "${words_[@]}"
  else
    _files
  fi
}
compdef _croft croft
`

func completionCommand(app *cli.App) *cli.Command {
	return &cli.Command{
		Name: "completion", Category: "help", Usage: "print the completion of a shell", ArgsUsage: "bash|zsh|fish", Action: func(c *cli.Context) error { return completion(app, c) },
		Description: "Examples:\n  source <(croft completion bash)\n  croft completion fish > ~/.config/fish/completions/croft.fish",
		BashComplete: func(c *cli.Context) {
			_, _ = fmt.Fprintln(c.App.Writer, "bash\nzsh\nfish")
		},
	}
}

func completion(app *cli.App, c *cli.Context) error {
	args, err := shell.Arguments(c, 1, 1, "one of bash, zsh and fish")
	if err != nil {
		return err
	}
	out := ""
	switch args[0] {
	case "bash":
		out = bashCompletion
	case "zsh":
		out = zshCompletion
	case "fish":
		if out, err = app.ToFishCompletion(); err != nil {
			return err
		}
	default:
		return shell.Usagef("there is no completion for %q; it must be bash, zsh or fish", args[0])
	}
	_, err = fmt.Fprint(app.Writer, out)
	return err
}

func versionCommand(s *shell.Shell) *cli.Command {
	return &cli.Command{
		Name: "version", Category: "help", Usage: "print the version", Action: func(c *cli.Context) error {
			return s.Answer(c, map[string]string{"version": s.Env.Version, "commit": s.Env.Commit},
				render.Rows{Head: []string{"croft", s.Env.Version, s.Env.Commit}})
		},
		Description: "Examples:\n  croft version -o json",
	}
}
