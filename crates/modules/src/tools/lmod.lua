-- Answers many questions of Lmod in one process. Standard input has a line with the path of lmod and a line for each
-- question: the arguments of lmod. Every word is in hexadecimal. An answer is what lmod writes to standard output and to
-- standard error, and on each after that a line: \1quell NUMBER STATUS.
--
-- Lmod is loaded once, and each question is answered by a fork of that process: nothing of one answer is there at the next.

local function word(hexadecimal)
    return (hexadecimal:gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end))
end

local script = word(io.stdin:read("l"))
local questions = {}
for line in io.stdin:lines() do
    questions[#questions + 1] = line
end

local file = assert(io.open(script))
local text = file:read("a")
file:close()
-- Its first line is for the kernel, its last calls the main program.
text = text:gsub("^#[^\n]*", "")
local definitions, calls = text:gsub("\nmain%(%)%s*$", "\nreturn main\n")
if calls ~= 1 then
    io.stderr:write("the main program of ", script, " is not found\n")
    os.exit(125)
end

for index = #arg, 1, -1 do
    arg[index] = nil
end
arg[0] = script
arg[-1] = nil
local main = assert(load(definitions, "@" .. script))()
local fork = require("posix.unistd").fork
local setenv = require("posix.stdlib").setenv
local wait = require("posix.sys.wait").wait

for number, question in ipairs(questions) do
    io.stdout:flush()
    io.stderr:flush()
    local child = fork()
    if child == 0 then
        for argument in question:gmatch("%S+") do
            local text = word(argument)
            local name, value = text:match("^([%a_][%w_]*)=(.*)$")
            -- Assignments stand before the name of the shell.
            if name and #arg == 0 then
                setenv(name, value)
            else
                arg[#arg + 1] = text
            end
        end
        main()
        os.exit(0, true)
    end
    local _, _, status = wait(child)
    local mark = string.format("\1quell %d %d\n", number - 1, status)
    io.stdout:write(mark)
    io.stderr:write(mark)
end
