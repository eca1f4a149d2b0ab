# Writes OUTPUT, a C++ file with the texts of the page:
#   cmake -D FOLDER=page -D OUTPUT=page_assets.cpp -P embed.cmake
function(read out)
  set(text "")
  foreach(name IN LISTS ARGN)
    file(READ "${FOLDER}/${name}" part)
    string(APPEND text "${part}")
  endforeach()
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

read(html page.html)
read(style page.css)
read(script format.js data.js timeline.js charts.js panels.js main.js)
file(WRITE "${OUTPUT}" "#include \"sluice/profile/page_assets.h\"

namespace sluice::profile {

const std::string_view kPageHtml = R\"asset(${html})asset\";
const std::string_view kPageStyle = R\"asset(${style})asset\";
const std::string_view kPageScript = R\"asset(${script})asset\";

}  // namespace sluice::profile
")
